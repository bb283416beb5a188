/* SPDX-License-Identifier: Apache-2.0 */
/* The channel while its ends come and go: agents killed, guests rebooted, hosts that leave. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "vm.h"

#define LIMIT 3600 /* s; every wait has a deadline of its own */

static const struct vm_spec mini = { .image = "mini", .memory_mib = 128 };

/* PID 1 of a machine in which the agent is a program like others. */
static const char supervisor[] = "#!/bin/sh\n"
				 "mount -t proc proc /proc\n"
				 "mount -t sysfs sys /sys\n"
				 "mount -t devtmpfs dev /dev\n"
				 "while read -r word path; do\n"
				 "	[ \"$word\" = module ] && insmod \"$path\"\n"
				 "done </boot.conf\n"
				 "while :; do\n"
				 "	/init --serve &\n"
				 "	echo $! >/agent\n"
				 "	wait $!\n"
				 "done\n";

static unsigned greetings_before;

static bool greeted_again(const void *arg)
{
	(void)arg;
	return session_greetings(vm.session) > greetings_before && session_is_open(vm.session);
}

static void is_lost(struct vm_task *t)
{
	const struct command_result *r = vm_task_end(t);

	CHECK_INT(r->end, COMMAND_LOST);
	if (!strstr(r->text, "outcome is unknown"))
		CHECK_STR(r->text, "its outcome is unknown");
	vm_task_free(t);
}

/* What runs while the guest is hit: a flood that fills all buffers, and one that says nothing. */
struct load {
	struct vm_task *flood, *quiet;
};

static struct load load_begin(void)
{
	struct load l = { vm_task("cat /dev/zero"), vm_task("cat") };

	greetings_before = session_greetings(vm.session);
	vm_task_bytes(l.flood, 1 << 20);
	return l;
}

static void load_is_lost(struct load *l)
{
	vm_until(greeted_again, NULL, VM_LONG, "the guest greets anew");
	is_lost(l->flood);
	is_lost(l->quiet);
	vm_says("echo back", "back\n");
}

TEST_WITHIN(a_killed_agent_is_told_and_replaced, LIMIT)
{
	struct vm_spec spec = mini;

	spec.init = supervisor;
	vm_start(&spec);
	for (unsigned i = 0; i < vm_rounds(10); i++) {
		struct load load = load_begin();
		struct vm_task *killer = vm_task("kill -9 $(cat /agent)");

		load_is_lost(&load);
		vm_task_free(killer);
	}
	CHECK_INT(vm.resets, 0);
	vm_stop();
}

static void reboots(bool by_message)
{
	struct load load = load_begin();
	struct vm_task *rebooter = NULL;
	unsigned resets = vm.resets;
	uint8_t was[16], is[16];

	session_boot_id(vm.session, was);
	if (by_message)
		CHECK(session_reboot(vm.session, &vm.err));
	else
		rebooter = vm_task("reboot -f");
	load_is_lost(&load);
	session_boot_id(vm.session, is);
	CHECK(memcmp(was, is, sizeof(is)) != 0);
	CHECK(vm.resets > resets);
	if (rebooter)
		vm_task_free(rebooter);
}

TEST_WITHIN(a_guest_reboots_under_load, LIMIT)
{
	vm_start(&mini);
	for (unsigned i = 0; i < vm_rounds(1); i++) {
		reboots(true);
		reboots(false);
	}
	vm_stop();
}

static int by_size(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Attaches so many times; between does what is to be done there. */
static void attach_often(unsigned rounds, void (*between)(unsigned i))
{
	int64_t *took = xcalloc(rounds, sizeof(*took)), start;
	unsigned hellos = 0;

	for (unsigned i = 0; i < rounds; i++) {
		vm_detach();
		start = clock_ms();
		vm_attach();
		took[i] = clock_ms() - start;
		hellos += vm.wire->hellos;
		between(i);
	}
	qsort(took, rounds, sizeof(*took), by_size);
	printf("# %u attaches: median %lld ms, 99 %% in %lld ms, longest %lld ms, %u greetings\n",
		rounds, (long long)took[rounds / 2], (long long)took[rounds - 1 - rounds / 100],
		(long long)took[rounds - 1], hellos);
	CHECK_INT(vm.wedged, 0);
	/* A greeting is repeated when a busy host was slow, never as a rule. */
	CHECK(hellos <= rounds + 1 + rounds / 50);
	free(took);
}

static void nothing(unsigned i)
{
	(void)i;
}

TEST_WITHIN(the_first_greeting_is_answered, LIMIT)
{
	vm_start(&mini);
	attach_often(vm_rounds(300), nothing);
	vm_says("echo still here", "still here\n");
	vm_stop();
}

static struct vm_task *logger;

/* A line for the command that runs all the time; then the guest must answer. */
static void say_and_ping(unsigned i)
{
	char line[16];

	(void)snprintf(line, sizeof(line), "%06u\n", i);
	CHECK_INT(command_input(logger->command, line, 7), 7);
	vm_ping(2000);
}

TEST_WITHIN(a_command_runs_on_while_hosts_come_and_go, LIMIT)
{
	static const char resident[] = "awk '/^Rss:/ { print $2 }' /proc/1/smaps_rollup";
	unsigned rounds = vm_rounds(100);
	unsigned long long before, after;
	CLEAN(str) char *wanted = xasprintf("%u\n", rounds);
	const struct command_result *r;

	vm_start(&mini);
	logger = vm_task("exec tee -a /log");
	attach_often(10, nothing);
	before = vm_number(resident);
	attach_often(rounds, say_and_ping);
	after = vm_number(resident);
	command_input_end(logger->command);
	r = vm_task_end(logger);
	CHECK_INT(r->end, COMMAND_EXITED);
	CHECK_INT(r->value, 0);
	CHECK_INT(logger->bytes + r->output_lost, 7 * rounds);
	vm_task_free(logger);
	printf("# the agent has %llu KiB in memory, and had %llu\n", after, before);
	CHECK(after <= before + 64);
	/* Each line once, in order. */
	vm_says("wc -l </log", wanted);
	vm_says("n=0; while read -r x; do [ $((1$x)) = $((1000000 + n)) ] || echo \"$n: $x\"; "
		"n=$((n + 1)); done </log",
		"");
	vm_stop();
}

static void write_frame(int fd, enum message type, uint32_t tag, struct bytes body)
{
	const struct frame f = {
		.type = (uint16_t)type,
		.stream = stream_of(77, PART_CONTROL),
		.tag = tag,
		.body = body,
	};
	static uint8_t frame[FRAME_MAX];
	const size_t size = frame_put(frame, &f);

	CHECK_INT(send(fd, frame, size, MSG_NOSIGNAL), (long long)size);
}

/* One that connects while another is served, asks for a command, and is gone before it is heard. */
static void haunt(uint32_t tag)
{
	struct msg_exec m = { .argc = 3 };
	uint8_t body[1024];
	struct writer w = writer_of(body, sizeof(body));
	int fd = vm_connect();

	m.argv[0] = bytes_str("/bin/sh");
	m.argv[1] = bytes_str("-c");
	m.argv[2] = bytes_str("echo boo >/ghost");
	put_exec(&w, &m);
	CHECK(!w.bad);
	write_frame(fd, MSG_EXEC, tag, bytes_of(body, (size_t)(w.at - body)));
	fd_close(&fd);
}

TEST_WITHIN(a_ghost_runs_nothing, LIMIT)
{
	vm_start(&mini);
	for (unsigned i = 0; i < vm_rounds(5); i++) {
		struct vm_task *t;
		uint32_t stale;

		vm_ping(VM_LONG);
		stale = vm.wire->tag;
		vm_detach();
		vm_attach();
		t = vm_task("exec tee /alive");
		haunt(stale);
		haunt(i % 2 ? 0 : ~stale);
		vm_detach();
		vm_attach();
		CHECK_INT(command_input(t->command, "yes", 3), 3);
		command_input_end(t->command);
		CHECK_INT(vm_task_end(t)->end, COMMAND_EXITED);
		vm_task_free(t);
		vm_says("cat /alive; ls /ghost 2>/dev/null || true", "yes");
	}
	vm_stop();
}
