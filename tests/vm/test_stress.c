/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest in trouble, and the channel answers: a ping in time, a command from start to end; and
 * when the trouble is over nothing of it is left.
 *
 * Each trouble is made and undone in one machine, by turns, so that one leaves nothing that the
 * next would trip over.
 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "machine/machine.h"
#include "vm.h"

#define LIMIT	   900 /* s; every wait has a deadline of its own */
#define STRAIN_MS  4000
#define NORMAL_MS  1000
#define HOGS	   20
#define BOMB_TRIES 10

static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };

static void answers(void)
{
	vm_ping(STRAIN_MS);
	vm_says("echo alive", "alive\n");
}

static void is_normal(void)
{
	struct guest_health health;

	vm_ping(NORMAL_MS);
	vm_says("echo well", "well\n");
	CHECK(session_ping(vm.session, vm_in(NORMAL_MS), &health, &vm.err));
	CHECK_INT(health.operations, 0);
}

static void start_mini(void)
{
	vm_start(&(struct vm_spec){ .image = "mini", .memory_mib = 128 });
}

static struct command_result cancelled(struct vm_task *t)
{
	struct command_result r;

	command_cancel(t->command);
	r = *vm_task_end(t);
	vm_task_free(t);
	CHECK(r.cancelled);
	return r;
}

/* Puts a file into the agent's root. False: it did not go, and the session is as it was. */
static bool put(const char *path, const void *data, size_t len)
{
	bool done = session_put(vm.session, path, 0755, data, len, vm_in(VM_LONG), &vm.err);

	CHECK(session_is_open(vm.session));
	return done;
}

static bool put_some(void)
{
	static const char data[200000];

	return put("/put", data, sizeof(data));
}

static void a_full_root(void)
{
	vm_says("dd if=/dev/zero of=/fill bs=64k 2>/dev/null; echo more >>/fill2 2>/dev/null || "
		"echo full",
		"full\n");
	answers();
	CHECK(!put_some());
	vm_says("ls /put* /.put* 2>/dev/null || true", "");
	vm_says("rm -f /fill /fill2", "");
	CHECK(put_some());
	vm_says("wc -c </put; rm /put", "200000\n");
	is_normal();
}

static void memory_to_the_edge(void)
{
	vm_says("left() { awk '/MemAvailable/ { print $2 }' /proc/meminfo; }\n"
		"while [ \"$(left)\" -gt 16000 ]; do\n"
		"	head -c 2000000 /dev/zero >>/tmp/fill || head -c 2000000 /dev/zero "
		">>/fill\n"
		"done 2>/dev/null",
		"");
	answers();
	vm_says("rm -f /tmp/fill /fill", "");
	is_normal();
}

static void a_root_that_is_read_only(void)
{
	vm_says("mount -o remount,ro /", "");
	answers();
	CHECK(!put_some());
	answers();
	vm_says("mount -o remount,rw /", "");
	CHECK(put_some());
	is_normal();
}

static void no_temporary_folder(void)
{
	vm_says("umount /tmp && rmdir /tmp", "");
	answers();
	CHECK(put_some());
	vm_says("mkdir -m 1777 /tmp && mount -t tmpfs tmp /tmp", "");
	is_normal();
}

static void no_proc(void)
{
	struct vm_task *t;

	vm_says("unshare -m sh -c 'umount -l /proc && ls /proc | wc -l'", "0\n");
	vm_says("umount -l /proc && ls /proc | wc -l", "0\n");
	answers();
	t = vm_task("sleep 1000 & echo up; wait");
	vm_task_bytes(t, 3);
	CHECK_INT(cancelled(t).left_behind, 0);
	vm_says("mount -t proc proc /proc", "");
	is_normal();
}

static void runs(const char *const *argv, const char *wanted)
{
	struct command_spec spec = { .argv = argv, .env = env };
	struct command_result result;

	CHECK(command_run(vm.session, &spec, vm_in(VM_LONG), &result, &vm.err));
	if (result.end != COMMAND_EXITED)
		CHECK_STR(result.text, wanted);
	CHECK_INT(result.value, 0);
}

/* Puts a program of this host there. */
static void put_program(const char *host_path, const char *guest_path)
{
	CLEAN(buf) struct buf program = { 0 };

	CHECK(file_read(host_path, 8 << 20, &program, &vm.err));
	CHECK(put(guest_path, program.data, program.len));
}

/* All programs are gone; those that are put there are run as they are. */
static void no_shell(void)
{
	static const char *const subject[] = { "/run/subject", "hash", "/file", NULL };
	static const char *const echo[] = { "/busybox", "echo", "hello", NULL };
	static const char *const back[] = { "/busybox", "sh", "-c",
		"/busybox mkdir -p /bin /sbin /usr/bin /usr/sbin && /busybox cp /busybox "
		"/bin/busybox && "
		"/bin/busybox --install -s",
		NULL };
	CLEAN(str) char *toolbox = image_toolbox();
	const char *agent = getenv("POSTERN_AGENT"), *output;
	struct command_result r;

	(void)vm_shell("rm -rf /bin /sbin /usr", &output);
	vm_ping(STRAIN_MS);
	r = vm_shell("echo alive", &output);
	CHECK_INT(r.end, COMMAND_FAILED);
	CHECK_INT(r.kind, FAIL_NOT_FOUND);
	put_program(agent ? agent : "build/postern-agent", "/run/subject");
	CHECK(put("/subject/file", "x", 1));
	runs(subject, "the agent's own tool runs");
	put_program(toolbox, "/busybox");
	runs(echo, "a program runs");
	runs(back, "the programs are back");
	vm_says("rm -r /busybox /run/subject /subject", "");
	is_normal();
}

TEST_WITHIN(the_root_is_full, LIMIT)
{
	start_mini();
	a_full_root();
	memory_to_the_edge();
	vm_stop();
}

TEST_WITHIN(parts_of_the_system_are_missing, LIMIT)
{
	start_mini();
	a_root_that_is_read_only();
	no_temporary_folder();
	no_proc();
	no_shell();
	vm_stop();
}

TEST_WITHIN(every_processor_is_taken, LIMIT)
{
	CLEAN(str)
	char *text = xasprintf("i=0; while [ $i -lt %d ]; do while :; do :; done & i=$((i + 1)); "
			       "done; echo up; wait",
		HOGS);
	struct vm_task *hogs;
	int64_t start;

	start_mini();
	hogs = vm_task(text);
	vm_task_bytes(hogs, 3);
	start = clock_ms();
	vm_ping(STRAIN_MS);
	printf("# a ping beside %d hogs took %lld ms\n", HOGS, (long long)(clock_ms() - start));
	answers();
	CHECK_INT(cancelled(hogs).left_behind, 0);
	is_normal();
	vm_stop();
}

/* It grows until the kernel has no process left for anybody, the agent included. */
TEST_WITHIN(a_fork_bomb_meets_a_limit, LIMIT)
{
	unsigned refused = 0;
	struct vm_task *bomb;

	start_mini();
	vm_says("echo $(($(ls -d /proc/[0-9]* | wc -l) + 100)) >/proc/sys/kernel/threads-max", "");
	bomb = vm_task("export f='while :; do sh -c \"$f\" & done'\n"
		       "(while :; do sh -c \"$f\"; done) >/dev/null 2>&1 &\n"
		       "echo up; exec sleep 100000");
	vm_task_bytes(bomb, 3);
	for (int i = 0; i < BOMB_TRIES; i++) {
		const char *output;
		struct command_result r;

		vm_ping(STRAIN_MS);
		r = vm_shell("echo alive", &output);
		if (r.end == COMMAND_FAILED)
			CHECK_INT(r.kind, FAIL_RESOURCES);
		else
			CHECK_INT(r.end, COMMAND_EXITED);
		refused += r.end == COMMAND_FAILED;
	}
	printf("# %u of %d commands were refused meanwhile\n", refused, BOMB_TRIES);
	CHECK_INT(cancelled(bomb).left_behind, 0);
	is_normal();
	vm_stop();
}

TEST_WITHIN(memory_runs_out, LIMIT)
{
	struct vm_task *beside;
	struct command_result r;
	const char *output;

	start_mini();
	CHECK(vm_number("awk '/VmLck/ { print $2 }' /proc/1/status") > 0);
	beside = vm_task("exec cat");
	for (unsigned i = 0; i < vm_rounds(2); i++) {
		struct vm_task *hog = vm_task("exec tail /dev/zero");

		do
			vm_ping(VM_LONG);
		while (command_result(hog->command)->end == COMMAND_RUNS);
		CHECK_INT(command_result(hog->command)->end, COMMAND_SIGNALLED);
		CHECK_INT(command_result(hog->command)->value, 9);
		vm_task_free(hog);
	}
	/* In a child of the shell, which lives to tell. */
	r = vm_shell("tail /dev/zero; echo $?", &output);
	CHECK_INT(r.end, COMMAND_EXITED);
	CHECK_STR(output, "Killed\n137\n");
	command_input_end(beside->command);
	CHECK_INT(vm_task_end(beside)->end, COMMAND_EXITED);
	vm_task_free(beside);
	is_normal();
	vm_stop();
}
