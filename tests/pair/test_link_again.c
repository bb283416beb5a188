/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's end of a channel that ends and is attached again, against the real agent.
 *
 * The socket outlives each channel, as a port of a machine does: what was not read is stale for the
 * next.
 */
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/loop.h"
#include "link/session.h"
#include "start.h"

#define SOON  15000 /* ms: far more than anything here takes */
#define TIMES 12    /* that the channel ends */

static struct loop loop;
static struct session *session;
static int port; /* the host's end, never closed */
static pid_t agent;
static struct err err;

static const char *const env[] = { "PATH=/usr/bin:/bin", NULL };

static void attach(void)
{
	int fd = fcntl(port, F_DUPFD_CLOEXEC, 3);

	CHECK(fd >= 0);
	session_detach(session);
	session_attach(session, fd);
	CHECK(session_wait_open(session, clock_in(SOON), &err));
}

static void start_agent(void)
{
	CHECK(loop_init(&loop, false, &err));
	port = agent_start(&agent);
	session = session_new(&loop, fcntl(port, F_DUPFD_CLOEXEC, 3));
	session_keep(session);
	CHECK(session_wait_open(session, clock_in(SOON), &err));
}

static void stop_agent(void)
{
	session_free(session);
	fd_close(&port);
	CHECK_INT(waitpid(agent, NULL, 0), agent);
	loop_release(&loop);
}

static size_t take_output(void *self, enum stream_part part, const uint8_t *data, size_t len)
{
	(void)part;
	buf_add(self, data, len);
	return len;
}

static struct command *start(const char *script, struct command_spec spec, struct buf *out)
{
	const char *const argv[] = { "sh", "-c", script, NULL };
	struct command *c;

	spec.argv = argv;
	spec.env = env;
	spec.grace_ms = 1000;
	spec.output = take_output;
	spec.self = out;
	c = command_start(session, &spec, &err);
	CHECK(c);
	return c;
}

static bool ended(const void *arg)
{
	return command_result(arg)->end != COMMAND_RUNS;
}

static const struct command_result *wait_end(const struct command *c)
{
	CHECK(loop_until(&loop, ended, c, clock_in(SOON), &err));
	return command_result(c);
}

struct more {
	const struct command *c;
	const struct buf *out;
	size_t len;
};

static bool has_more(const void *arg)
{
	const struct more *more = arg;

	return more->out->len >= more->len || ended(more->c);
}

static void wait_output(const struct command *c, const struct buf *out, size_t len)
{
	struct more more = { c, out, len };

	CHECK(loop_until(&loop, has_more, &more, clock_in(SOON), &err));
}

TEST(output_is_whole_or_counted_as_lost)
{
	const struct command_result *r;
	struct buf out = { 0 };
	struct command *c;

	start_agent();
	c = start("seq 1000000 1599999", (struct command_spec){ 0 }, &out);
	for (size_t i = 1; i <= TIMES; i++) {
		wait_output(c, &out, i * 200000);
		attach();
	}
	r = wait_end(c);
	CHECK_INT(r->end, COMMAND_EXITED);
	CHECK_INT(r->value, 0);
	CHECK_INT(r->stdout_bytes, out.len);
	CHECK_INT(r->stdout_bytes + r->output_lost, 4800000);
	/* On a slow host the last bytes were under way when the channel ended last. */
	CHECK(r->output_lost || !strcmp(buf_text(&out) + out.len - 9, "\n1599999\n"));
	CHECK_INT(session_greetings(session), 1 + TIMES);
	command_free(c);
	buf_release(&out);
	stop_agent();
}

TEST(input_in_memory_arrives_whole)
{
	static char input[3 << 20];
	const struct command_result *r;
	struct buf out = { 0 };
	struct command *c;

	for (size_t i = 0; i < sizeof(input); i++)
		input[i] = (char)(i * 31 + i / 4099);
	start_agent();
	c = start("cat", (struct command_spec){ .input = input, .input_len = sizeof(input) }, &out);
	for (size_t i = 1; i <= TIMES; i++) {
		wait_output(c, &out, i * 100000);
		attach();
	}
	r = wait_end(c);
	CHECK_INT(r->end, COMMAND_EXITED);
	CHECK_INT(r->stdout_bytes + r->output_lost, sizeof(input));
	command_free(c);
	c = start(
		"cksum", (struct command_spec){ .input = input, .input_len = sizeof(input) }, &out);
	out.len = 0;
	for (int i = 0; i < TIMES; i++)
		attach();
	CHECK_INT(wait_end(c)->end, COMMAND_EXITED);
	if (!command_result(c)->output_lost)
		CHECK(strstr(buf_text(&out), " 3145728"));
	command_free(c);
	buf_release(&out);
	stop_agent();
}

TEST(streamed_input_arrives_once)
{
	static const char block[20000];
	struct buf out = { 0 };
	unsigned long long came;
	size_t given = 0;
	struct command *c;

	start_agent();
	c = start("wc -c", (struct command_spec){ .stream_input = true }, &out);
	for (int i = 0; i < TIMES; i++) {
		given += command_input(c, block, sizeof(block));
		if (i % 2)
			CHECK(session_ping(session, clock_in(SOON), NULL, &err));
		given += command_input(c, block, sizeof(block));
		attach();
	}
	command_input_end(c);
	CHECK_INT(wait_end(c)->end, COMMAND_EXITED);
	came = strtoull(buf_text(&out), NULL, 10);
	CHECK_INT(came, given);
	command_free(c);
	buf_release(&out);
	stop_agent();
}

/* Whether the EXEC came or not, whether the end was told or not: it runs once. */
TEST(a_command_runs_once_whenever_the_channel_ends)
{
	char file[] = "/tmp/test-once-XXXXXX", script[100], text[4 * TIMES];
	int fd = mkstemp(file);

	CHECK(fd >= 0);
	(void)snprintf(script, sizeof(script), "echo x >> %s", file);
	start_agent();
	for (int i = 0; i < TIMES; i++) {
		struct buf out = { 0 };
		struct command *c = start(script, (struct command_spec){ 0 }, &out);

		for (int turns = 0; turns < i % 6; turns++)
			if (!loop_until(&loop, ended, c, clock_in(1 + turns), &err))
				CHECK_INT(err.code, ERR_TIME);
		attach();
		CHECK_INT(wait_end(c)->end, COMMAND_EXITED);
		command_free(c);
		attach();
	}
	stop_agent();
	CHECK_INT(read(fd, text, sizeof(text)), 2 * TIMES);
	close(fd);
	unlink(file);
}

TEST(a_guest_that_started_anew_lost_its_commands)
{
	struct buf out = { 0 };
	struct command *c, *again;

	start_agent();
	c = start("sleep 30", (struct command_spec){ 0 }, &out);
	CHECK(session_ping(session, clock_in(SOON), NULL, &err));
	session_detach(session);
	kill(agent, SIGKILL);
	CHECK_INT(waitpid(agent, NULL, 0), agent);
	fd_close(&port);
	CHECK_INT(command_result(c)->end, COMMAND_RUNS);
	port = agent_start(&agent);
	attach();
	CHECK_INT(command_result(c)->end, COMMAND_LOST);
	again = start("exit 3", (struct command_spec){ 0 }, &out);
	CHECK_INT(wait_end(again)->value, 3);
	command_free(again);
	command_free(c);
	stop_agent();
}

TEST(signals_and_sizes_reach_a_terminal)
{
	struct buf out = { 0 };
	struct command *c;

	start_agent();
	c = start("trap 'stty size; exit 7' WINCH; stty size; while :; do sleep 0.02; done",
		(struct command_spec){ .pty = true, .rows = 11, .columns = 22 }, &out);
	wait_output(c, &out, 5);
	attach();
	command_resize(c, 33, 44);
	CHECK_INT(wait_end(c)->value, 7);
	CHECK_STR(buf_text(&out), "11 22\r\n33 44\r\n");
	command_free(c);
	out.len = 0;
	c = start("trap 'exit 9' USR1; echo ready; while :; do sleep 0.02; done",
		(struct command_spec){ 0 }, &out);
	wait_output(c, &out, 5);
	command_signal(c, SIGUSR1);
	CHECK_INT(wait_end(c)->end == COMMAND_EXITED ? command_result(c)->value : 9, 9);
	command_free(c);
	buf_release(&out);
	stop_agent();
}
