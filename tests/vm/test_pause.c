/* SPDX-License-Identifier: Apache-2.0 */
/* The channel of a machine that is stopped, saved and loaded while it is in use. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "vm.h"

#define LIMIT  3600 /* s; every wait has a deadline of its own */
#define STEADY 300  /* questions to QEMU during which no more came */
#define FLOODS 4    /* their windows hold more than QEMU's socket */

static const struct vm_spec mini = { .image = "mini", .memory_mib = 128 };
static const struct vm_spec saved = { .image = "mini", .memory_mib = 128, .snapshots = true };

TEST_WITHIN(a_flood_survives_being_stopped, LIMIT)
{
	const struct command_result *r;
	struct vm_task *t;

	vm_start(&mini);
	t = vm_task("head -c 50000000 /dev/zero");
	for (unsigned i = 0; i < vm_rounds(10); i++) {
		vm_control("stop");
		vm_control("query-status");
		vm_control("cont");
		if (command_result(t->command)->end == COMMAND_RUNS)
			vm_ping(5000);
	}
	r = vm_task_end(t);
	CHECK_INT(r->end, COMMAND_EXITED);
	CHECK_INT(r->output_lost, 0);
	CHECK_INT(t->bytes, 50000000);
	vm_task_free(t);
	vm_stop();
}

static unsigned frames_before;

static bool said_and_through(const void *arg)
{
	(void)arg;
	return vm.wire->frames > frames_before && wire_is_through(vm.wire);
}

/* What is queued now stands in QEMU's socket. */
static void push(void)
{
	frames_before = vm.wire->frames;
	vm_until(said_and_through, NULL, VM_LONG, "the request leaves");
}

static void cancel(struct vm_task *t)
{
	command_cancel(t->command);
	CHECK(vm_task_end(t)->cancelled);
	vm_task_free(t);
}

TEST_WITHIN(a_host_that_left_a_paused_guest_finds_it_again, LIMIT)
{
	unsigned rounds = vm_rounds(3);

	vm_start(&mini);
	for (unsigned i = 0; i < rounds; i++) {
		struct vm_task *flood = vm_task("cat /dev/zero");

		vm_task_bytes(flood, 1 << 20);
		vm_control("stop");
		vm_detach();
		vm_control("cont");
		vm_attach();
		vm_task_bytes(flood, 1 << 20);
		cancel(flood);
	}
	printf("# %u of %u had to be attached twice\n", vm.wedged, rounds);
	vm_stop();
}

TEST_WITHIN(what_a_paused_guest_never_got_is_sent_again, LIMIT)
{
	unsigned rounds = vm_rounds(3);
	CLEAN(str) char *wanted = xasprintf("%u\n", rounds);

	vm_start(&mini);
	for (unsigned i = 0; i < rounds; i++) {
		struct vm_task *t;

		vm_control("stop");
		t = vm_task("echo again >>/once");
		push();
		vm_detach();
		vm_control("cont");
		vm_attach();
		CHECK_INT(vm_task_end(t)->end, COMMAND_EXITED);
		vm_task_free(t);
	}
	vm_says("wc -l </once", wanted);
	vm_stop();
}

/* A request on its way, the state from before it, and another host: it hears of its own alone. */
static void load_under_a_request(const char *tag, unsigned i)
{
	CLEAN(str) char *stale = xasprintf("echo stale-%u; sleep 1000", i);
	CLEAN(str) char *fresh = xasprintf("echo fresh-%u", i);
	CLEAN(str) char *wanted = xasprintf("fresh-%u\n", i);
	struct vm_task *t = vm_task(stale);

	push();
	vm_load(tag);
	vm_task_free(t);
	vm_renew(true);
	vm_says(fresh, wanted);
}

TEST_WITHIN(a_busy_snapshot_is_loaded_under_requests, LIMIT)
{
	struct vm_task *flood;

	vm_start(&saved);
	flood = vm_task("cat /dev/zero");
	vm_task_bytes(flood, 1 << 20);
	vm_save("busy");
	vm_task_free(flood);
	for (unsigned i = 0; i < vm_rounds(50); i++)
		load_under_a_request("busy", i);
	printf("# %u loads had to be attached twice\n", vm.wedged);
	vm_stop();
}

/* The recommended way: nothing is under way and nobody is connected when it is saved, and a new
 * host comes after it is loaded. Its greeting may be there before the guest knows that it has come.
 */
TEST_WITHIN(a_snapshot_without_a_host_is_found_at_once, LIMIT)
{
	unsigned rounds = vm_rounds(20), hellos = 0;

	vm_start(&saved);
	vm_says("echo quiet", "quiet\n");
	vm_detach();
	vm_save("alone");
	for (unsigned i = 0; i < rounds; i++) {
		vm_load("alone");
		vm_renew(false);
		hellos += vm.wire->hellos;
		vm_says("echo here", "here\n");
		vm_detach();
	}
	printf("# %u loads, %u greetings\n", rounds, hellos);
	CHECK_INT(vm.wedged, 0);
	CHECK(hellos <= rounds + 1 + rounds / 20);
	vm_stop();
}

/* Nothing tells of it, but QEMU's own answers give it time: how much a socket holds depends on the
 * size of the writes, so it is full when nothing more comes. */
static void wait_for_a_full_socket(void)
{
	const int64_t until = vm_in(VM_LONG);
	int unread = 0, before = 0;

	for (int steady = 0; steady < STEADY; before = unread) {
		CHECK(clock_ms() < until);
		vm_control("query-status");
		CHECK(ioctl(vm.wire->guest.fd, FIONREAD, &unread) == 0);
		steady = unread && unread == before ? steady + 1 : 0;
	}
}

static void save_throttled(void)
{
	struct vm_task *floods[FLOODS];

	for (int i = 0; i < FLOODS; i++) {
		floods[i] = vm_task("cat /dev/zero");
		vm_task_bytes(floods[i], 1 << 18);
	}
	vm.wire->stalled = true;
	wait_for_a_full_socket();
	vm_save("throttled");
	vm.wire->stalled = false;
	for (int i = 0; i < FLOODS; i++)
		vm_task_free(floods[i]);
}

/*
 * A state that nobody should save: a buffer of the guest's was half sent. QEMU may lose count of it
 * when it loads that, and the port is then dead for good. The host is told in time, and a sound
 * state, or a reset, gives the port back.
 */
static void load_throttled(bool keep_connection, bool reset)
{
	const char *said = vm_monitor("loadvm throttled");
	bool answers = vm_try_renew(keep_connection);

	printf("# a throttled snapshot %s%s%s\n", answers ? "answers" : "does not answer",
		*said ? ", and QEMU said: " : "", said);
	if (answers)
		vm_says("echo well", "well\n");
	if (reset)
		vm_control("system_reset");
	else
		vm_load("sound");
	vm_renew(false);
	vm_says("echo well", "well\n");
}

TEST_WITHIN(a_throttled_snapshot_is_told_and_left, LIMIT)
{
	vm_start(&saved);
	vm_says("echo quiet", "quiet\n");
	vm_save("sound");
	save_throttled();
	for (unsigned i = 0; i < vm_rounds(1); i++) {
		load_throttled(true, false);
		load_throttled(false, true);
	}
	vm_stop();
}
