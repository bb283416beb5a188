/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One machine is made new again and again, and each time it is: nothing of a life before, random
 * numbers of its own, the time of day; and neither keeper nor template wears out.
 *
 * How it works. Each round asks the keeper for a reset, as the command does, and looks around in
 * the new guest. It leaves a token there, in files and in the memory of a process that stays; any
 * other round's that is seen fails the test.
 */
#include "test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "home.h"
#include "keeper/visit.h"
#include "vm.h"

#define LIMIT	 7200 /* s; every wait has a deadline of its own */
#define LONG_MS	 600000
#define CLOCK_US 100000 /* so far may a guest's clock be off */
#define CLOCKS	 20	/* readings, until one was quick enough to tell */
#define GROWS_KB 512	/* of the keeper's memory, in half of the rounds: two windows of a stream */
#define RANDOM	 32	/* digits */
#define SAID_MAX 4096
#define BOX	 "box"

static struct loop loop;
static struct visit visit;
static struct err err;

static const char *const guest_env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };

static char said[SAID_MAX]; /* by the last command in the guest */
static size_t said_len;

static size_t take(void *self, enum stream_part part, const uint8_t *untrusted, size_t len)
{
	size_t room = sizeof(said) - 1 - said_len, n = len < room ? len : room;

	(void)self;
	(void)part;
	memcpy(said + said_len, untrusted, n);
	said_len += n;
	said[said_len] = '\0';
	return len;
}

static void in_guest(const char *const *argv)
{
	const struct command_spec spec = { .argv = argv, .env = guest_env, .output = take };
	struct command_result result;

	said_len = 0;
	said[0] = '\0';
	if (!command_run(visit.session, &spec, clock_in(LONG_MS), &result, &err))
		CHECK_STR(err.text, "the end of a command");
	CHECK_INT(result.end, COMMAND_EXITED);
	CHECK_INT(result.value, 0);
}

static int64_t now_us(void)
{
	struct timespec t;

	CHECK_INT(clock_gettime(CLOCK_REALTIME, &t), 0);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static bool answered(const void *arg)
{
	const struct command *c = arg;

	return strchr(said, '\n') || command_result(c)->end != COMMAND_RUNS;
}

/* The clock is off by at most the larger distance from our readings before and after the guest's.
 * Returns that bound. */
static int64_t clock_is_off(struct command *c)
{
	int64_t before = now_us(), after, guest;
	long long seconds, micros;

	said_len = 0;
	said[0] = '\0';
	CHECK_INT(command_input(c, "\n", 1), 1);
	CHECK(loop_until(&loop, answered, c, clock_in(LONG_MS), &err));
	after = now_us();
	CHECK_INT(sscanf(said, "%lld.%6lld", &seconds, &micros), 2);
	guest = seconds * 1000000 + micros;
	return guest - before > after - guest ? guest - before : after - guest;
}

/* A shell tells its clock for each line: nothing starts between question and answer. Of a busy host
 * the quickest reading tells. Returns the best bound. */
static int64_t check_clock(const char *shell)
{
	const char *argv[] = { shell, "-c", "while read -r _; do echo $EPOCHREALTIME; done", NULL };
	const struct command_spec spec = {
		.argv = argv, .env = guest_env, .stream_input = true, .output = take
	};
	struct command *c = command_start(visit.session, &spec, &err);
	int64_t best = INT64_MAX;

	CHECK(c);
	for (int i = 0; i < CLOCKS && best > CLOCK_US; i++) {
		int64_t bound = clock_is_off(c);

		best = bound < best ? bound : best;
	}
	command_free(c);
	if (best > CLOCK_US)
		CHECK_INT(best, CLOCK_US);
	return best;
}

/* Says the boot id, a random number, and all tokens that are there; then leaves its own. */
static void look_and_leave(const char *token)
{
	static const char script[] =
		"cat /proc/sys/kernel/random/boot_id; "
		"head -c 16 /dev/urandom | od -An -v -tx1 | tr -d ' \\n'; echo; "
		"ls -a /root /tmp /dev/shm 2>/dev/null | grep ^token-; "
		"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep ^token-; "
		"touch /root/$1 /tmp/$1 && sync && ls /root/$1 /tmp/$1 >/dev/null || exit; "
		"sh -c 'sleep 1000000; :' $1 & :";

	in_guest((const char *const[]){ "sh", "-c", script, "sh", token, NULL });
}

/* What has to be seen of a life is the boot id, a new number, and no token but its own. */
static void check_said(const char *token, const char *boot_id, char *ret_random)
{
	CLEAN(str) char *text = xstrdup(said);
	char *rest = text, *line = strsep(&rest, "\n");

	CHECK_STR(line, boot_id);
	line = strsep(&rest, "\n");
	CHECK(line && strlen(line) == RANDOM);
	memcpy(ret_random, line, RANDOM + 1);
	while ((line = strsep(&rest, "\n")) && *line)
		CHECK_STR(line, token);
}

/* What the keeper holds. */
struct load {
	long kilobytes, descriptors;
};

static struct load keeper_load(void)
{
	CLEAN(json) struct json *status = visit_status(BOX, &err);
	int keeper = (int)json_get_int(status, "keeper", 0);
	CLEAN(str) char *path = xasprintf("/proc/%d/smaps_rollup", keeper);
	CLEAN(str) char *fds = xasprintf("/proc/%d/fd", keeper);
	struct load load = { 0 };
	char line[256];
	FILE *f = fopen(path, "re");
	DIR *dir = opendir(fds);

	CHECK(f && dir);
	while (fgets(line, sizeof(line), f))
		(void)sscanf(line, "Rss: %ld", &load.kilobytes);
	while (readdir(dir))
		load.descriptors++;
	(void)fclose(f);
	closedir(dir);
	return load;
}

static void reset_and_visit(void)
{
	CLEAN(json) struct json *done = visit_ask(BOX, "reset", LONG_MS, NULL, NULL, &err);

	if (!done)
		CHECK_STR(err.text, "a reset");
	if (!visit_open(&visit, &loop, BOX, &err))
		CHECK_STR(err.text, "a visit");
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void check_all_differ(char (*randoms)[RANDOM + 1], unsigned rounds)
{
	qsort(randoms, rounds, sizeof(*randoms), by_text);
	for (unsigned i = 1; i < rounds; i++)
		CHECK(strcmp(randoms[i - 1], randoms[i]) != 0);
}

/* The boot id of the first machine, which is the template's. */
static char *first_boot_id(void)
{
	if (!visit_open(&visit, &loop, BOX, &err))
		CHECK_STR(err.text, "a visit");
	in_guest((const char *const[]){ "cat", "/proc/sys/kernel/random/boot_id", NULL });
	visit_close(&visit);
	return xstrndup(said, strcspn(said, "\n"));
}

static void go_round(unsigned rounds, const char *shell)
{
	CLEAN(str) char *boot_id = first_boot_id();
	char(*randoms)[RANDOM + 1] = xcalloc(rounds, sizeof(*randoms));
	int64_t worst = 0, begin = clock_ms();
	struct load first = { 0 }, last;

	for (unsigned i = 0; i < rounds; i++) {
		CLEAN(str) char *token = xasprintf("token-%u", i);
		int64_t off;

		reset_and_visit();
		look_and_leave(token);
		check_said(token, boot_id, randoms[i]);
		off = check_clock(shell);
		worst = off > worst ? off : worst;
		visit_close(&visit);
		if (i == rounds / 2)
			first = keeper_load();
	}
	last = keeper_load();
	printf("# %u resets in %lld s; clocks were off by less than %lld us; the keeper has %ld "
	       "and then %ld KiB, %ld and then %ld descriptors\n",
		rounds, (long long)(clock_ms() - begin) / 1000, (long long)worst, first.kilobytes,
		last.kilobytes, first.descriptors, last.descriptors);
	CHECK_INT(last.descriptors, first.descriptors);
	CHECK(last.kilobytes <= first.kilobytes + GROWS_KB);
	check_all_differ(randoms, rounds);
	free(randoms);
}

static void soak(const char *image, unsigned rounds, const char *shell)
{
	home_make();
	CHECK(loop_init(&loop, false, &err));
	CHECK_INT(RUN("up", BOX, "-i", image), 0);
	go_round(rounds, shell);
	home_wait_processes(2, "before the end");
	CHECK_INT(RUN("down", BOX), 0);
	CHECK_INT(RUN("template", "verify", image), 0);
	loop_release(&loop);
	home_check_and_remove("images machines templates ");
}

TEST_WITHIN(a_machine_without_a_disk_is_new_each_time, LIMIT)
{
	soak("mini", vm_rounds_of(20, 900), "sh");
}

TEST_WITHIN(a_server_is_new_each_time, LIMIT)
{
	soak("server", vm_rounds_of(5, 100), "bash");
}
