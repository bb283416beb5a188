# SPDX-License-Identifier: Apache-2.0
# Every target of postern; `make help` lists those that people type.

BUILD   ?= build
VERSION := 0.1
CC      ?= cc
MUSL_CC ?= musl-gcc

# SANITIZE=address,undefined builds the host side with sanitizers into a folder of its own.
ifneq ($(SANITIZE),)
OBJ     := $(BUILD)/sanitize
SANFLAG := -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all
else
OBJ     := $(BUILD)
endif

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla -Wstrict-prototypes \
	-Wmissing-prototypes -Wformat=2
ifneq ($(DEVELOPER),)
WARN += -Werror
endif

CPPFLAGS := -D_GNU_SOURCE -DVERSION='"$(VERSION)"' -Iprotocol -MMD -MP
CFLAGS   := -std=c17 -O2 -g $(WARN)
HOST_CFLAGS  := $(CFLAGS) -fstack-protector-strong -D_FORTIFY_SOURCE=2 $(SANFLAG)
GUEST_CFLAGS := -std=c17 -O2 -g $(WARN) -static -ffunction-sections -fdata-sections \
	-fno-asynchronous-unwind-tables -fno-unwind-tables -fstack-protector-strong
HOST_LIBS    := -lcurl -lcjson -lyaml

ifneq ($(V),)
Q :=
else
Q := @
endif

PROTOCOL := $(wildcard protocol/*.c)
GUEST    := $(wildcard guest-agent/*.c)
HOST     := $(wildcard host/*/*.c)

HOST_OBJ  := $(patsubst %.c,$(OBJ)/host/%.o,$(HOST) $(PROTOCOL))
GUEST_OBJ := $(patsubst %.c,$(BUILD)/guest/%.o,$(GUEST) $(PROTOCOL))

.PHONY: all
all: $(OBJ)/postern $(BUILD)/postern-agent

$(OBJ)/postern: $(HOST_OBJ)
	@echo "  LINK  $@"
	$(Q)$(CC) $(HOST_CFLAGS) -o $@ $^ $(HOST_LIBS)

$(BUILD)/postern-agent: $(GUEST_OBJ)
	@echo "  LINK  $@"
	$(Q)$(MUSL_CC) $(GUEST_CFLAGS) -Wl,--gc-sections -o $@.debug $^
	$(Q)strip -o $@ $@.debug

$(OBJ)/host/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CPPFLAGS) -Ihost $(HOST_CFLAGS) -c -o $@ $<

$(BUILD)/guest/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $< (guest)"
	$(Q)$(MUSL_CC) $(CPPFLAGS) $(GUEST_CFLAGS) -c -o $@ $<

-include $(HOST_OBJ:.o=.d) $(GUEST_OBJ:.o=.d)

# Tests in C. Each program holds the runner; tests/unit sees host and protocol, tests/pair drives the
# real agent ($$POSTERN_AGENT) over a socketpair.
UNIT_TESTS := $(patsubst tests/%.c,$(OBJ)/tests/%,$(wildcard tests/unit/test_*.c))
UNIT_HELP  := $(patsubst %.c,$(OBJ)/host/%.o,$(filter-out $(wildcard tests/unit/test_*.c),$(wildcard tests/unit/*.c)))
PAIR_TESTS := $(patsubst tests/%.c,$(OBJ)/tests/%,$(wildcard tests/pair/test_*.c))
PAIR_HELP  := $(patsubst %.c,$(OBJ)/host/%.o,$(filter-out $(wildcard tests/pair/test_*.c),$(wildcard tests/pair/*.c)))
UNIT_OBJ   := $(filter-out $(OBJ)/host/host/cli/main.o,$(HOST_OBJ))
PROTO_OBJ  := $(patsubst %.c,$(OBJ)/host/%.o,$(PROTOCOL))
E2E_HELP   := $(OBJ)/tests/e2e/talk
ON_PTY     := $(OBJ)/tests/e2e/onpty
TEST_CPP   := -Itests
CONFORM    := $(OBJ)/tests/conformance/conform
CONFORM_OBJ := $(patsubst %.c,$(OBJ)/host/%.o,$(wildcard tests/conformance/*.c))
VM_C_TESTS := $(patsubst tests/%.c,$(OBJ)/tests/%,$(wildcard tests/vm/test_*.c))
VM_HELP    := $(patsubst %.c,$(OBJ)/host/%.o,$(filter-out $(wildcard tests/vm/test_*.c),$(wildcard tests/vm/*.c)))
CLI_TESTS  := $(sort $(wildcard tests/cli/*.sh))
VM_TESTS   := $(VM_C_TESTS) $(sort $(filter-out %/lib.sh,$(wildcard tests/vm/*.sh tests/e2e/*.sh)))

$(OBJ)/host/tests/%.o: CPPFLAGS += $(TEST_CPP)

$(UNIT_TESTS): $(OBJ)/tests/unit/%: $(OBJ)/host/tests/unit/%.o $(OBJ)/host/tests/runner.o $(UNIT_HELP) $(UNIT_OBJ)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(HOST_CFLAGS) -o $@ $^ $(HOST_LIBS)

# Parts of the agent that need no agent around them.
$(OBJ)/tests/unit/test_transfer $(OBJ)/tests/unit/test_subject: $(patsubst %.c,$(OBJ)/host/%.o, \
	$(wildcard guest-agent/transfer_*.c guest-agent/subject*.c) guest-agent/beneath.c guest-agent/kernfs.c)
$(OBJ)/host/tests/unit/test_transfer.o $(OBJ)/host/tests/unit/test_subject.o: CPPFLAGS += -Iguest-agent

# Tests with real VMs, and programs that scripts of tests/e2e run.
$(E2E_HELP) $(VM_C_TESTS): $(OBJ)/tests/%: $(OBJ)/host/tests/%.o $(OBJ)/host/tests/runner.o $(UNIT_OBJ)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(HOST_CFLAGS) -o $@ $^ $(HOST_LIBS)

$(VM_C_TESTS): $(VM_HELP)

# A program that runs another on a terminal; no tests in it.
$(ON_PTY): $(OBJ)/tests/%: $(OBJ)/host/tests/%.o $(UNIT_OBJ)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(HOST_CFLAGS) -o $@ $^ $(HOST_LIBS)

$(PAIR_TESTS): $(OBJ)/tests/pair/%: $(OBJ)/host/tests/pair/%.o $(OBJ)/host/tests/runner.o $(PAIR_HELP) $(PROTO_OBJ)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(HOST_CFLAGS) -o $@ $^ $(PAIR_LIBS)

# The host's own end of the channel against the agent.
LINK_TESTS := $(addprefix $(OBJ)/tests/pair/test_,link link_again tree switchboard callers)
$(LINK_TESTS): $(UNIT_OBJ)
$(LINK_TESTS): PAIR_LIBS := $(HOST_LIBS)

# A part of the agent by itself.
$(OBJ)/tests/pair/test_pump: $(OBJ)/host/guest-agent/pump.o
$(OBJ)/host/tests/pair/test_pump.o: CPPFLAGS += -Iguest-agent

# Scripts of bytes against any agent, and the bytes themselves against protocol/.
$(CONFORM): $(CONFORM_OBJ) $(PROTO_OBJ)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(HOST_CFLAGS) -o $@ $^
$(OBJ)/tests/unit/test_vectors: $(OBJ)/host/tests/conformance/text.o

# The agent as a program of the host, so that the sanitizers see it.
AGENT_OBJ := $(patsubst %.c,$(OBJ)/host/%.o,$(GUEST) $(PROTOCOL))
ifneq ($(SANITIZE),)
$(OBJ)/postern-agent: $(AGENT_OBJ)
	@echo "  LINK  $@"
	$(Q)$(CC) $(HOST_CFLAGS) -o $@ $^
endif
-include $(AGENT_OBJ:.o=.d)

-include $(patsubst $(OBJ)/tests/%,$(OBJ)/host/tests/%.d,$(UNIT_TESTS) $(PAIR_TESTS) $(E2E_HELP) $(ON_PTY) $(VM_C_TESTS)) $(OBJ)/host/tests/runner.d
-include $(PAIR_HELP:.o=.d) $(UNIT_HELP:.o=.d) $(CONFORM_OBJ:.o=.d) $(VM_HELP:.o=.d)

# Fuzz targets see host and protocol too; fuzz_agent sees the agent instead, in a made-up world. What
# crashed one is kept beside it. TARGET=fuzz_X runs that one alone. tests/fuzz/corpus is what -merge=1
# -set_cover_merge=1 -max_len=700 left of long runs, and what once crashed.
TIME      ?= 60
FUZZ      := $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/fuzz/$(or $(TARGET),fuzz_*).c))
FUZZ_OBJ  := $(patsubst %.c,$(BUILD)/fuzz/%.o,$(filter-out host/cli/main.c,$(HOST)) $(PROTOCOL))
FUZZ_FLAG := -std=c17 -O1 -g -fno-sanitize-recover=all
FUZZ_SAN  := address,undefined
WORLD_OBJ := $(patsubst %,$(BUILD)/fuzz/%.o,tests/fuzz/world $(addprefix guest-agent/,agent ending freeze \
	kernfs operation operations pump report session terminal text vitals) $(PROTOCOL:.c=))

$(BUILD)/fuzz/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $< (fuzz)"
	$(Q)clang $(CPPFLAGS) -Ihost $(FUZZ_FLAG) -fsanitize=fuzzer-no-link,$(FUZZ_SAN) -c -o $@ $<

$(BUILD)/fuzz/guest-agent/%.o: CPPFLAGS += $(foreach f,fork kill reboot socketpair waitpid,-D$(f)=fuzz_$(f))
$(BUILD)/fuzz/tests/fuzz/fuzz_agent.o $(BUILD)/fuzz/tests/fuzz/world.o: CPPFLAGS += -Iguest-agent
$(BUILD)/fuzz/fuzz_agent: $(WORLD_OBJ)

$(FUZZ): $(BUILD)/fuzz/%: $(BUILD)/fuzz/tests/fuzz/%.o
	@echo "  LINK  $@"
	$(Q)clang $(FUZZ_FLAG) -fsanitize=fuzzer,$(FUZZ_SAN) -o $@ $^ $(HOST_LIBS)
$(filter-out %/fuzz_agent,$(FUZZ)): $(FUZZ_OBJ)

-include $(FUZZ_OBJ:.o=.d) $(WORLD_OBJ:.o=.d) $(patsubst $(BUILD)/fuzz/%,$(BUILD)/fuzz/tests/fuzz/%.d,$(FUZZ))

.PHONY: fuzz
fuzz: $(FUZZ)
	$(Q)set -e; for f in $(FUZZ); do mkdir -p $$f.corpus; \
		$$f -max_total_time=$(TIME) -max_len=8192 -len_control=0 -print_final_stats=1 -artifact_prefix=$$f- \
			$$(readlink -f $$f.corpus) $(CURDIR)/tests/fuzz/corpus/$$(basename $$f); done

# make bench: clients of the raw port and of postern, and the raw port's agent for the guest.
BENCH       := $(addprefix $(OBJ)/tests/bench/,port client)
BENCH_OBJ   := $(addprefix $(OBJ)/host/tests/bench/,port.o raw.o client.o)
BENCH_GUEST := $(OBJ)/tests/bench/guest

$(BENCH): $(OBJ)/tests/bench/%: $(OBJ)/host/tests/bench/%.o $(UNIT_OBJ)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(HOST_CFLAGS) -o $@ $^ $(HOST_LIBS)
$(OBJ)/tests/bench/port: $(OBJ)/host/tests/bench/raw.o

$(BENCH_GUEST): tests/bench/guest.c
	@mkdir -p $(@D)
	@echo "  CC    $< (guest)"
	$(Q)$(MUSL_CC) -D_GNU_SOURCE $(GUEST_CFLAGS) -o $@ $<

-include $(BENCH_OBJ:.o=.d)

# What people type. Each installs what is missing first; DEPS=no leaves that out.
SCENARIOS := scenarios/port-squatter scenarios/unreadable-page scenarios/nginx-down
IMAGES    := $(or $(POSTERN_HOME),$(or $(XDG_DATA_HOME),$(HOME)/.local/share)/postern)/images

.PHONY: deps images demo check check-long check-fast conformance bench lint format format-check help
deps:
ifneq ($(DEPS),no)
	$(Q)./deps.sh
endif

images: $(BUILD)/postern-agent
	$(Q)image-builder/build-image mini --agent $(BUILD)/postern-agent --images $(IMAGES)
	$(Q)image-builder/build-image server --agent $(BUILD)/postern-agent --images $(IMAGES)

# The three scenarios, untouched and solved; with MODEL=URL also by that model.
demo: deps
	$(Q)$(MAKE) --no-print-directory all images
	$(Q)scenarios/demo $(OBJ)/postern "$(MODEL)" $(SCENARIOS)

# All that postern needs where it runs; images come from `make images`, and the agent is in them.
PREFIX ?= /usr/local
.PHONY: install
install: $(OBJ)/postern
	$(Q)install -D -m 755 $(OBJ)/postern "$(DESTDIR)$(PREFIX)/bin/postern"
	$(Q)install -D -m 644 docs/postern.1 "$(DESTDIR)$(PREFIX)/share/man/man1/postern.1"

# Tests without a VM.
check-fast: deps
	$(Q)$(MAKE) --no-print-directory all $(OBJ)/postern-agent $(UNIT_TESTS) $(PAIR_TESTS) $(CONFORM)
	$(Q)BUILD=$(OBJ) tests/run-tests $(UNIT_TESTS) $(PAIR_TESTS) tests/conformance/run.sh \
		$(CLI_TESTS)

# Any agent, which is started as `AGENT --fd 3`.
conformance: AGENT ?= $(BUILD)/postern-agent
conformance: $(CONFORM) $(BUILD)/postern-agent
	$(Q)$(CONFORM) $(sort $(wildcard tests/conformance/[0-9]-*.vec)) -- $(AGENT) --fd 3

check: deps
	$(Q)$(MAKE) --no-print-directory all images $(UNIT_TESTS) $(PAIR_TESTS) $(CONFORM) $(E2E_HELP) $(ON_PTY) $(VM_C_TESTS)
	$(Q)BUILD=$(OBJ) tests/run-tests $(UNIT_TESTS) $(PAIR_TESTS) tests/conformance/run.sh \
		$(CLI_TESTS) $(VM_TESTS)

# What takes long: everything random in VMs, ROUNDS times as often as in `make check`, a kernel of its own,
# fuzzing, and the budgets in short.
ROUNDS ?= 10
LONG_TESTS := $(sort $(wildcard tests/long/*.sh))
check-long:
ifneq ($(DEPS),no)
	$(Q)./deps.sh check
endif
	$(Q)$(MAKE) --no-print-directory all images $(VM_C_TESTS)
	$(Q)ROUNDS=$(ROUNDS) TEST_LIMIT=$(or $(TEST_LIMIT),7200) BUILD=$(OBJ) tests/run-tests $(VM_C_TESTS) $(LONG_TESTS)
	$(Q)$(MAKE) --no-print-directory fuzz
	$(Q)$(MAKE) --no-print-directory bench QUICK=1

# What postern costs beside the alternatives; QUICK=1: fewer runs and twice the slack.
bench:
ifneq ($(DEPS),no)
	$(Q)./deps.sh bench
endif
	$(Q)$(MAKE) --no-print-directory all $(BENCH) $(BENCH_GUEST)
	$(Q)image-builder/build-image mini --agent $(BUILD)/postern-agent --images $(IMAGES)
	$(Q)image-builder/build-image bench --agent $(BUILD)/postern-agent --images $(IMAGES)
	$(Q)tests/bench/bench --build $(OBJ) --image $(IMAGES)/bench $(if $(QUICK),--quick)

lint:
	$(Q)./deps.sh check
	$(Q)$(MAKE) --no-print-directory all DEVELOPER=1
	$(Q)tests/lint

SOURCES := $(wildcard protocol/*.[ch] guest-agent/*.[ch] host/*/*.[ch] tests/*.[ch] tests/*/*.[ch])

format:
	$(Q)clang-format -i $(SOURCES)

format-check:
	$(Q)clang-format --dry-run -Werror $(SOURCES)

help:
	@echo 'make                 the host program and the guest agent, in $(BUILD)/'
	@echo 'make demo            three broken servers, untouched and repaired [MODEL=http://127.0.0.1:8080]'
	@echo 'make check           all tests: units, agent, VMs, a real llama-server'
	@echo 'make check-long      machines at random for long, fuzzing, budgets [ROUNDS=10 SEED=number TIME=60]'
	@echo 'make check-fast      those without a VM [SANITIZE=address,undefined]'
	@echo 'make conformance     the channel, byte by byte, against any agent [AGENT=path]'
	@echo 'make bench           postern beside what else there is, and the budgets [QUICK=1]'
	@echo 'make images          the VM images, if their recipe changed'
	@echo 'make install         the program and its manual [PREFIX=/usr/local DESTDIR=]'
	@echo 'make lint            clang-tidy, cppcheck, shellcheck, layers, headers; make format-check'
	@echo 'make fuzz TIME=60    decoders and both sides of a session, so many seconds each [TARGET=fuzz_agent]'

.PHONY: clean
clean:
	rm -rf $(BUILD)
