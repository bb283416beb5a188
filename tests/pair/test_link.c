/* SPDX-License-Identifier: Apache-2.0 */
/* The host end of the channel against the real agent, over a socketpair. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/loop.h"
#include "frame.h"
#include "link/session.h"
#include "start.h"

#define SOON 15000 /* ms: far more than anything here takes */

static struct loop loop;
static struct session *session;
static pid_t agent;
static struct err err;

static const char *const env[] = { "PATH=/usr/bin:/bin", NULL };

static void start_agent(void)
{
	CHECK(loop_init(&loop, false, &err));
	session = session_new(&loop, agent_start(&agent));
	CHECK(session_wait_open(session, clock_in(SOON), &err));
}

static void stop_agent(void)
{
	session_free(session);
	CHECK_INT(waitpid(agent, NULL, 0), agent);
	loop_release(&loop);
}

/* Output, as it came. */
struct sink {
	struct buf text[2];
	size_t keep; /* bytes that are not used up at first */
	size_t kept;
};

static size_t take_output(void *self, enum stream_part part, const uint8_t *data, size_t len)
{
	struct sink *sink = self;
	size_t keep = sink->keep < len ? sink->keep : len;

	buf_add(&sink->text[part - PART_STDOUT], data, len);
	sink->keep -= keep;
	sink->kept += keep;
	return len - keep;
}

static void sink_release(struct sink *sink)
{
	buf_release(&sink->text[0]);
	buf_release(&sink->text[1]);
}

static struct command *start(const char *script, struct sink *sink)
{
	const char *const argv[] = { "sh", "-c", script, NULL };
	const struct command_spec spec = {
		.argv = argv,
		.env = env,
		.grace_ms = 1000,
		.output = sink ? take_output : NULL,
		.self = sink,
	};
	struct command *c = command_start(session, &spec, &err);

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

static struct command_result run(const char *script, struct sink *sink)
{
	struct command *c = start(script, sink);
	struct command_result result = *wait_end(c);

	command_free(c);
	return result;
}

TEST(a_command_runs_and_tells_its_end)
{
	struct sink sink = { 0 };
	struct command_result result;

	start_agent();
	CHECK_INT(session_greetings(session), 1);
	result = run("echo out; echo error >&2; exit 42", &sink);
	CHECK_INT(result.end, COMMAND_EXITED);
	CHECK_INT(result.value, 42);
	CHECK_INT(result.stdout_bytes, 4);
	CHECK_STR(buf_text(&sink.text[0]), "out\n");
	CHECK_STR(buf_text(&sink.text[1]), "error\n");
	result = run("kill -USR1 $$", NULL);
	CHECK_INT(result.end, COMMAND_SIGNALLED);
	CHECK_INT(result.value, SIGUSR1);
	sink_release(&sink);
	stop_agent();
}

TEST(many_commands_one_after_the_other)
{
	start_agent();
	for (int i = 0; i < 50; i++) {
		char script[32];

		(void)snprintf(script, sizeof(script), "exit %d", i);
		CHECK_INT(run(script, NULL).value, i);
	}
	stop_agent();
}

TEST(what_can_not_run_has_failed)
{
	const char *const missing[] = { "no-such-program", NULL };
	struct command_spec spec = { .argv = missing, .env = env };
	struct command_result result;

	start_agent();
	CHECK(command_run(session, &spec, clock_in(SOON), &result, &err));
	CHECK_INT(result.end, COMMAND_FAILED);
	CHECK_INT(result.kind, FAIL_NOT_FOUND);
	CHECK(result.text[0]);
	spec.argv = (const char *const[]){ "true", NULL };
	spec.dir = "/no/such/directory";
	CHECK(command_run(session, &spec, clock_in(SOON), &result, &err));
	CHECK_INT(result.end, COMMAND_FAILED);
	CHECK_INT(result.kind, FAIL_DIRECTORY);
	stop_agent();
}

TEST(sixteen_mebibytes_of_output)
{
	struct sink sink = { 0 };
	struct command_result result;

	start_agent();
	result = run("yes 0123456789abcde | head -c 16777216", &sink);
	CHECK_INT(result.end, COMMAND_EXITED);
	CHECK_INT(result.stdout_bytes, 16 << 20);
	CHECK_INT(sink.text[0].len, 16 << 20);
	for (size_t i = 0; i < sink.text[0].len; i += 16)
		CHECK_MEM(sink.text[0].data + i, "0123456789abcde\n", 16);
	sink_release(&sink);
	stop_agent();
}

static bool window_is_full(const void *arg)
{
	return ((const struct sink *)arg)->kept == STREAM_WINDOW;
}

TEST(what_is_not_used_up_holds_the_command)
{
	struct sink sink = { .keep = STREAM_WINDOW };
	const struct command_result *result;
	struct command *c;

	start_agent();
	c = start("head -c 1000000 /dev/zero", &sink);
	CHECK(loop_until(&loop, window_is_full, &sink, clock_in(SOON), &err));
	CHECK(session_ping(session, clock_in(SOON), NULL, &err));
	CHECK_INT(command_result(c)->end, COMMAND_RUNS);
	command_consumed(c, PART_STDOUT, STREAM_WINDOW);
	result = wait_end(c);
	CHECK_INT(result->end, COMMAND_EXITED);
	CHECK_INT(result->stdout_bytes, 1000000);
	command_free(c);
	sink_release(&sink);
	stop_agent();
}

TEST(input_comes_back_from_cat)
{
	static const char *const argv[] = { "cat", NULL };
	const size_t len = 3 << 20;
	const struct frame hello = { .type = MSG_HELLO, .body = { NULL, HELLO_BODY } };
	struct sink sink = { 0 };
	uint8_t *data = malloc(len);
	const struct command_spec spec = {
		.argv = argv,
		.env = env,
		.input = data,
		.input_len = len,
		.output = take_output,
		.self = &sink,
	};
	struct command_result result;

	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	for (size_t i = 0; i + 2 * FRAME_HEADER < len; i += 99991)
		frame_put_header(data + i, &hello);
	start_agent();
	CHECK(command_run(session, &spec, clock_in(SOON), &result, &err));
	CHECK_INT(result.end, COMMAND_EXITED);
	CHECK_INT(sink.text[0].len, len);
	CHECK_MEM(sink.text[0].data, data, len);
	free(data);
	sink_release(&sink);
	stop_agent();
}

TEST(input_that_nobody_reads_is_no_trouble)
{
	static const char *const argv[] = { "true", NULL };
	static char data[1 << 20];
	const struct command_spec spec = {
		.argv = argv, .env = env, .input = data, .input_len = sizeof(data)
	};
	struct command_result result;

	start_agent();
	CHECK(command_run(session, &spec, clock_in(SOON), &result, &err));
	CHECK_INT(result.end, COMMAND_EXITED);
	CHECK_INT(run("exit 5", NULL).value, 5);
	stop_agent();
}

TEST(cancel_and_deadline_end_a_command)
{
	static const char *const argv[] = { "sleep", "1000", NULL };
	const struct command_spec spec = { .argv = argv, .env = env, .deadline_ms = 50 };
	const struct command_result *result;
	struct command_result timed;
	struct command *c;

	start_agent();
	c = start("sleep 1000", NULL);
	command_cancel(c);
	result = wait_end(c);
	CHECK(result->cancelled);
	CHECK_INT(result->end, COMMAND_SIGNALLED);
	command_free(c);
	CHECK(command_run(session, &spec, clock_in(SOON), &timed, &err));
	CHECK(timed.timed_out && !timed.cancelled);
	stop_agent();
}

TEST(one_command_does_not_wait_for_the_other)
{
	struct command *a, *b;

	start_agent();
	a = start("exec sleep 1000", NULL);
	b = start("exit 6", NULL);
	CHECK_INT(wait_end(b)->value, 6);
	CHECK_INT(command_result(a)->end, COMMAND_RUNS);
	command_free(b);
	CHECK(!command_run(session,
		&(struct command_spec){
			.argv = (const char *const[]){ "sleep", "1000", NULL }, .env = env },
		clock_in(100), &(struct command_result){ 0 }, &err));
	CHECK_INT(err.code, ERR_TIME);
	command_cancel(a);
	CHECK(wait_end(a)->cancelled);
	command_free(a);
	stop_agent();
}

TEST(forgotten_floods_give_their_places_back)
{
	start_agent();
	for (int i = 0; i < 3 * OPERATIONS_MAX; i++) {
		struct command *c = start("exec yes", NULL);

		CHECK(session_ping(session, clock_in(SOON), NULL, &err));
		command_free(c);
		CHECK_INT(run("exit 3", NULL).value, 3);
	}
	stop_agent();
}

TEST(a_file_is_put)
{
	char path[64], *data = malloc(1 << 20);
	struct sink sink = { 0 };
	struct stat st;
	char script[128];

	memset(data, 'p', 1 << 20);
	start_agent();
	(void)snprintf(path, sizeof(path), "/tmp/link-%d/a/b", (int)getpid());
	CHECK(session_put(session, path, 0751, data, 1 << 20, clock_in(SOON), &err));
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_mode & 07777, 0751);
	CHECK_INT(st.st_size, 1 << 20);
	CHECK(session_put(session, path, 0600, NULL, 0, clock_in(SOON), &err));
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_size, 0);
	CHECK(!session_put(session, "/proc/no/file", 0600, data, 1 << 20, clock_in(SOON), &err));
	CHECK_INT(err.code, ERR_INPUT);
	(void)snprintf(script, sizeof(script), "rm -r /tmp/link-%d", (int)getpid());
	CHECK_INT(run(script, &sink).value, 0);
	free(data);
	sink_release(&sink);
	stop_agent();
}

TEST(poweroff_ends_the_agent)
{
	struct command_result result;
	const struct command_spec spec = { .argv = (const char *const[]){ "true", NULL } };

	start_agent();
	CHECK(session_poweroff(session, &err));
	CHECK(!command_run(session, &spec, clock_in(SOON), &result, &err) ||
		result.end == COMMAND_LOST);
	stop_agent();
}

TEST(a_killed_agent_loses_its_commands)
{
	struct command *c;

	start_agent();
	c = start("exec sleep 1000", NULL);
	CHECK(session_ping(session, clock_in(SOON), NULL, &err));
	kill(agent, SIGKILL);
	CHECK_INT(wait_end(c)->end, COMMAND_LOST);
	CHECK(session_broken(session));
	CHECK(!session_ping(session, clock_in(SOON), NULL, &err));
	CHECK_INT(err.code, ERR_PEER);
	command_free(c);
	stop_agent();
}
