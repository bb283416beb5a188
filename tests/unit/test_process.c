/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes: what they inherit, how they end, that they never stay. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/process.h"
#include "base/xalloc.h"
#include "test.h"

static bool run(const char *script, struct buf *out, struct err *err)
{
	const char *argv[] = { "sh", "-c", script, NULL };

	return process_run(argv, NULL, 10000, out, 64, err);
}

TEST(helper_output_is_collected_and_bounded)
{
	CLEAN(buf) struct buf out = { 0 };
	struct err err;

	CHECK(run("echo out; echo err >&2; cat", &out, &err));
	CHECK_STR(buf_text(&out), "out\nerr\n");
	CHECK(run("seq 1 1000", &out, &err));
	CHECK_INT(out.len, 64);
}

TEST(helper_failure_ends_in_its_last_words)
{
	CLEAN(buf) struct buf out = { 0 };
	struct err err;

	CHECK(!run("echo first; echo last words >&2; exit 3", &out, &err));
	CHECK_STR(err.text, "sh ended with status 3: last words");
	CHECK(!run("kill -9 $$", &out, &err));
	CHECK(strstr(err.text, "was killed by signal 9") != NULL);
}

TEST(helper_that_hangs_is_ended)
{
	const char *argv[] = { "sleep", "1000", NULL };
	CLEAN(buf) struct buf out = { 0 };
	struct err err;

	CHECK(!process_run(argv, NULL, 100, &out, 64, &err));
	CHECK_INT(err.code, ERR_TIME);
}

TEST(missing_program_names_its_package)
{
	const char *argv[] = { "no-such-program", NULL };
	CLEAN(buf) struct buf out = { 0 };
	struct err err;

	CHECK(!process_run(argv, "no-such-package", 1000, &out, 64, &err));
	CHECK(strstr(err.text, "install the package no-such-package") != NULL);
}

TEST(only_given_descriptors_are_inherited)
{
	const char *argv[] = { "sh", "-c", "ls /proc/$$/fd | tr '\\n' ' '", NULL };
	int pair[2], leak = open("/dev/null", O_RDONLY), kept = dup(leak);
	const int keep[] = { kept, -1 };
	CLEAN(str) char *wanted = xasprintf("0 1 2 %d ", kept);
	struct process *p;
	struct err err;
	char got[64] = "";
	int status;

	CHECK(pipe(pair) == 0);
	p = process_start(
		&(struct process_spec){ .argv = argv, .stdio = { -1, pair[1], -1 }, .keep = keep },
		&err);
	CHECK(p != NULL);
	close(pair[1]);
	CHECK(process_wait(p, 10000));
	CHECK(process_ended(p, &status) && status == 0);
	CHECK(read(pair[0], got, sizeof(got) - 1) > 0);
	CHECK_STR(got, wanted);
	process_free(p);
	close(pair[0]);
	close(leak);
	close(kept);
}

static bool refuse(const void *self)
{
	errno = *(const int *)self;
	return false;
}

TEST(a_child_that_can_not_enter_does_not_start)
{
	const char *argv[] = { "true", NULL };
	const int why = EPERM;
	struct err err;

	CHECK(!process_start(
		&(struct process_spec){
			.argv = argv, .stdio = { -1, -1, -1 }, .enter = refuse, .self = &why },
		&err));
	CHECK_STR(err.text, "starting true: Operation not permitted");
}

TEST(freeing_ends_the_whole_group)
{
	const char *argv[] = { "sh", "-c", "sleep 1000 & echo started; wait", NULL };
	int pair[2];
	struct process *p;
	struct err err;
	char got[16];

	CHECK(pipe(pair) == 0);
	p = process_start(
		&(struct process_spec){ .argv = argv, .stdio = { -1, pair[1], -1 } }, &err);
	CHECK(p != NULL);
	close(pair[1]);
	CHECK(read(pair[0], got, sizeof(got)) == 8);
	CHECK(!process_ended(p, NULL));
	process_free(p);
	/* The background job held the pipe open; its end is the end of the file. */
	CHECK_INT(read(pair[0], got, sizeof(got)), 0);
	close(pair[0]);
}

/* A parent that is killed takes its child along: the child's end closes the pipe. */
TEST(child_dies_with_its_parent)
{
	const char *argv[] = { "sleep", "1000", NULL };
	int pair[2];
	struct err err;
	pid_t parent;
	char got[16];

	CHECK(pipe(pair) == 0);
	parent = fork();
	if (parent == 0) {
		close(pair[0]);
		if (process_start(
			    &(struct process_spec){ .argv = argv, .stdio = { -1, pair[1], -1 } },
			    &err))
			(void)!write(pair[1], "up", 2);
		for (;;)
			pause();
	}
	close(pair[1]);
	CHECK_INT(read(pair[0], got, sizeof(got)), 2);
	kill(parent, SIGKILL);
	CHECK(waitpid(parent, NULL, 0) == parent);
	CHECK_INT(read(pair[0], got, sizeof(got)), 0);
	close(pair[0]);
}
