/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that a named machine consists of is killed at random moments, and nothing stays.
 *
 * How it works. Each round brings the machine up, whatever the round before has left, and starts
 * something with it: a command, a copy, a snapshot, a restore, a reset, a down, another up. After a
 * random time one of the processes gets SIGKILL: the one that was started, the keeper, or QEMU. All
 * that ran must then come to an end or work on; whose environment has our home tells which
 * processes are ours.
 */
#include "test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "base/xalloc.h"
#include "home.h"
#include "vm.h"

#define LIMIT	 7200 /* s; every wait has a deadline of its own */
#define LONG_MS	 600000
#define DELAY_MS 700 /* to the kill, at most */

static uint64_t seed;
static char *payload, *copies; /* paths */
static struct err err;
static unsigned counts[16]; /* that were hit */

static unsigned random_below(unsigned n)
{
	return (unsigned)(vm_random(&seed) % n);
}

/* What postern ls says about the machine; NULL: nothing. Returns owned. */
static struct json *look(void)
{
	const char *const argv[] = { postern, "ls", "--json", NULL };
	CLEAN(buf) struct buf out = { 0 };
	CLEAN(json) struct json *all = NULL;
	const struct json *m;

	if (!process_run(argv, NULL, LONG_MS, &out, 65536, &err))
		CHECK_STR(err.text, "a list");
	all = json_parse(out.data, out.len, &err);
	CHECK(all);
	CHECK(json_len(json_get(all, "machines")) <= 1);
	m = json_at(json_get(all, "machines"), 0);
	return m ? json_copy(m) : NULL;
}

static const char *state_of(const struct json *m)
{
	return m ? json_get_str(m, "state") : "none";
}

/* Whatever is there, it comes to rest: none, up, ended or left behind. */
static struct json *rest(void)
{
	int64_t deadline = clock_in(LONG_MS);
	struct json *m;

	for (;;) {
		const char *state;

		m = look();
		state = state_of(m);
		if (!strcmp(state, "none") || !strcmp(state, "ended") ||
			!strcmp(state, "left behind"))
			break;
		if (!strcmp(state, "up") && json_get_int(m, "operations", 1) == 0)
			break;
		CHECK(clock_ms() < deadline);
		json_free(m);
		(void)poll(NULL, 0, 50);
	}
	home_wait_processes(strcmp(state_of(m), "up") != 0 ? 0 : 2, state_of(m));
	return m;
}

/* From whatever the last round has left. */
static void bring_up(void)
{
	CLEAN(json) struct json *m = rest();
	const char *state = state_of(m);

	if (!strcmp(state, "ended"))
		CHECK_INT(RUN("down", "box"), 0);
	if (strcmp(state, "up") != 0)
		CHECK_INT(RUN("up", "box"), 0);
	CHECK_INT(RUN("exec", "-n", "box", "--", "true"), 0);
}

enum work { FLOOD, FEED, SLEEP, PUT, GET, SNAPSHOT, RESTORE, RESET, DOWN, UP, WORKS };

static struct process *begin(enum work work)
{
	static const char *const words[WORKS][8] = {
		[FLOOD] = { "exec", "-n", "box", "--", "cat", "/dev/zero", NULL },
		[FEED] = { "exec", "-n", "box", "--stdin", "--", "wc", "-c", NULL },
		[SLEEP] = { "exec", "-n", "box", "--", "sleep", "1000000", NULL },
		[SNAPSHOT] = { "snapshot", "box", NULL },
		[RESTORE] = { "restore", "box", NULL },
		[RESET] = { "reset", "box", NULL },
		[DOWN] = { "down", "box", NULL },
		[UP] = { "up", "box", NULL },
	};
	CLEAN(fd) int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	CLEAN(str) char *out = xasprintf("%s/%llx", copies, (unsigned long long)vm_random(&seed));

	if (work == UP)
		CHECK_INT(RUN("down", "box"), 0);
	if (work == RESTORE)
		CHECK_INT(RUN("snapshot", "box"), 0);
	if (work == PUT)
		return home_start(
			-1, (const char *const[]){ "cp", payload, "box:/root/payload", NULL });
	if (work == GET)
		return home_start(-1, (const char *const[]){ "cp", "box:/bin", out, NULL });
	return home_start(work == FEED ? zero : -1, words[work]);
}

enum victim { WORKER, KEEPER, QEMU, VICTIMS };

/* A process that we wait for, which is not another one's number when it has ended. */
static bool kill_worker(struct process *p)
{
	return !process_ended(p, NULL) &&
	       syscall(SYS_pidfd_send_signal, process_fd(p), SIGKILL, NULL, 0) == 0;
}

/* Kills one. False: it was not there. */
static bool strike(enum victim victim, struct process *worker)
{
	struct ours list[OURS_MAX];
	CLEAN(json) struct json *m = NULL;
	bool hit = false;
	unsigned n;
	pid_t keeper;

	if (victim == WORKER)
		return kill_worker(worker);
	m = look();
	keeper = (pid_t)json_get_int(m, "keeper", 0);
	n = home_processes(list);
	for (unsigned i = 0; i < n; i++)
		if (victim == QEMU ? list[i].qemu : list[i].pid == keeper)
			hit = kill(list[i].pid, SIGKILL) == 0 || hit;
	return hit;
}

/* Was that to come of it? */
static void judge(enum work work, enum victim victim, bool hit, int status)
{
	CLEAN(json) struct json *m = rest();
	const char *state = state_of(m);
	bool uses = work <= SNAPSHOT; /* the machine, and neither makes nor ends it */

	printf("# %d: %d was %s, then %d: %s\n", (int)work, (int)victim, hit ? "hit" : "missed",
		status, state);
	CHECK(!WIFSIGNALED(status) || WTERMSIG(status) == SIGKILL);
	if (!strcmp(state, "left behind"))
		CHECK(hit && victim == KEEPER);
	if (uses && (victim == WORKER || !hit))
		CHECK_STR(state, "up");
	if (uses && hit && victim == KEEPER)
		CHECK_STR(state, "left behind");
	if (uses && hit && victim == QEMU)
		CHECK_STR(state, "ended");
}

static void one_round(void)
{
	enum work work = random_below(WORKS);
	enum victim victim = random_below(VICTIMS);
	struct process *p;
	bool hit;

	bring_up();
	p = begin(work);
	(void)poll(NULL, 0, (int)random_below(DELAY_MS));
	hit = strike(victim, p);
	counts[victim] += hit;
	/* A worker that works on would do so for ever. */
	if (victim != WORKER && work <= SLEEP) {
		CLEAN(json) struct json *m = look();

		if (!strcmp(state_of(m), "up"))
			kill_worker(p);
	}
	judge(work, victim, hit, home_end(p));
}

static void set_up(void)
{
	CLEAN(fd) int fd = -1;
	static char data[1 << 20];

	home_make();
	payload = xasprintf("%s/payload", home);
	copies = xasprintf("%s/copies", home);
	CHECK_INT(mkdir(copies, 0700), 0);
	fd = open(payload, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	for (int i = 0; i < 16; i++)
		CHECK(fd_write(fd, data, sizeof(data), &err));
}

TEST_WITHIN(nothing_stays_of_what_is_killed_at_random_moments, LIMIT)
{
	const unsigned wanted = vm_rounds_of(20, 500);
	unsigned rounds = 0, hits = 0;

	seed = vm_seed();
	set_up();
	while (hits < wanted || !counts[WORKER] || !counts[KEEPER] || !counts[QEMU]) {
		one_round();
		rounds++;
		hits = counts[WORKER] + counts[KEEPER] + counts[QEMU];
	}
	json_free(rest());
	CHECK_INT(RUN("down", "--all"), 0);
	printf("# %u rounds: killed were %u callers, %u keepers, %u QEMUs\n", rounds,
		counts[WORKER], counts[KEEPER], counts[QEMU]);
	home_check_and_remove("copies images machines payload templates ");
	free(payload);
	free(copies);
}
