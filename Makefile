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
GUEST_CFLAGS := -std=c17 -Os -g $(WARN) -static -ffunction-sections -fdata-sections
HOST_LIBS    := -lcurl -lcjson -lyaml

ifneq ($(V),)
Q :=
else
Q := @
endif

PROTOCOL := $(wildcard protocol/*.c)
AGENT    := $(wildcard guest-agent/*.c)
HOST     := $(wildcard host/*/*.c)

HOST_OBJ  := $(patsubst %.c,$(OBJ)/host/%.o,$(HOST) $(PROTOCOL))
GUEST_OBJ := $(patsubst %.c,$(BUILD)/guest/%.o,$(AGENT) $(PROTOCOL))

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

.PHONY: clean
clean:
	rm -rf $(BUILD)
