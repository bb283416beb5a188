/* SPDX-License-Identifier: Apache-2.0 */
/* A real agent behind a switchboard, and callers of it, all in one loop. */
#ifndef BOARD_H
#define BOARD_H

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/loop.h"
#include "keeper/switchboard.h"
#include "start.h"

#define SOON 15000 /* ms: far more than anything here takes */

static struct loop loop;
static struct session *guest;
static struct switchboard *board;
static pid_t agent;
static struct err err;

static const char *const env[] = { "PATH=/usr/bin:/bin", NULL };

static inline void start_guest(void)
{
	guest = session_new(&loop, agent_start(&agent));
	CHECK(session_wait_open(guest, clock_in(SOON), &err));
	switchboard_serve(board, guest);
}

static inline void stop_guest(void)
{
	switchboard_serve(board, NULL);
	session_free(guest);
	CHECK_INT(waitpid(agent, NULL, 0), agent);
}

static inline void start(void)
{
	CHECK(loop_init(&loop, false, &err));
	board = switchboard_new(&loop, -1);
	start_guest();
}

static inline void stop(void)
{
	stop_guest();
	switchboard_free(board);
	loop_release(&loop);
}

/* The descriptor of a new caller. */
static inline int connect_caller(void)
{
	int ours, theirs;

	CHECK(fd_pair(&ours, &theirs, &err));
	switchboard_add(board, ours);
	return theirs;
}

static inline struct session *new_caller(void)
{
	struct session *s = session_new(&loop, connect_caller());

	CHECK(session_wait_open(s, clock_in(SOON), &err));
	return s;
}

/* Output, as it came; `keep` bytes of it are not used up at first. */
struct sink {
	struct buf text;
	size_t keep, kept;
	uint64_t bytes;
	bool count; /* only */
};

static inline size_t take_output(void *self, enum stream_part part, const uint8_t *data, size_t len)
{
	struct sink *sink = self;
	size_t keep = sink->keep < len ? sink->keep : len;

	(void)part;
	sink->bytes += len;
	if (!sink->count)
		buf_add(&sink->text, data, len);
	sink->keep -= keep;
	sink->kept += keep;
	return len - keep;
}

static inline struct command *begin(struct session *s, const char *script, struct sink *sink)
{
	const char *const argv[] = { "sh", "-c", script, NULL };
	const struct command_spec spec = { .argv = argv,
		.env = env,
		.grace_ms = 1000,
		.output = sink ? take_output : NULL,
		.self = sink };
	struct command *c = command_start(s, &spec, &err);

	CHECK(c);
	return c;
}

static inline bool ended(const void *arg)
{
	return command_result(arg)->end != COMMAND_RUNS;
}

static inline struct command_result end(struct command *c)
{
	struct command_result result;

	CHECK(loop_until(&loop, ended, c, clock_in(SOON), &err));
	result = *command_result(c);
	command_free(c);
	return result;
}

static inline void says(struct session *s, const char *script, const char *wanted)
{
	struct sink sink = { 0 };
	struct command_result r = end(begin(s, script, &sink));

	CHECK_INT(r.end, COMMAND_EXITED);
	CHECK_INT(r.value, 0);
	CHECK_STR(buf_text(&sink.text), wanted);
	buf_release(&sink.text);
}

static inline bool nothing_runs(const void *arg)
{
	(void)arg;
	return switchboard_operations(board) == 0 && switchboard_callers(board) == 1;
}

#endif
