/* SPDX-License-Identifier: Apache-2.0 */
/* Many callers of one real agent, each with a session of his own through the switchboard. */
#include "board.h"

#include <signal.h>

#include "frame.h"
#include "link/tree.h"

TEST(two_callers_do_not_see_each_other)
{
	struct session *a, *b;
	struct sink one = { 0 }, two = { 0 };
	struct command *x, *y;
	struct command_result r;

	start();
	a = new_caller();
	b = new_caller();
	CHECK_INT(switchboard_callers(board), 2);
	x = begin(a, "echo from a; exit 3", &one);
	y = begin(b, "echo from b >&2; kill -USR1 $$", &two);
	r = end(x);
	CHECK_INT(r.value, 3);
	r = end(y);
	CHECK_INT(r.end, COMMAND_SIGNALLED);
	CHECK_INT(r.value, SIGUSR1);
	CHECK_STR(buf_text(&one.text), "from a\n");
	CHECK_STR(buf_text(&two.text), "from b\n");
	for (int i = 0; i < 30; i++) {
		says(a, "echo 1", "1\n");
		says(b, "echo 2", "2\n");
	}
	CHECK_INT(switchboard_operations(board), 0);
	buf_release(&one.text);
	buf_release(&two.text);
	session_free(a);
	session_free(b);
	stop();
}

TEST(what_fails_has_failed)
{
	struct command_spec spec = { .argv = (const char *const[]){ "no-such-program", NULL },
		.env = env };
	struct command_result r;
	struct session *s;

	start();
	s = new_caller();
	CHECK(command_run(s, &spec, clock_in(SOON), &r, &err));
	CHECK_INT(r.end, COMMAND_FAILED);
	CHECK_INT(r.kind, FAIL_NOT_FOUND);
	spec = (struct command_spec){ .argv = (const char *const[]){ "sleep", "1000", NULL },
		.env = env,
		.deadline_ms = 50 };
	CHECK(command_run(s, &spec, clock_in(SOON), &r, &err));
	CHECK(r.timed_out);
	session_free(s);
	stop();
}

TEST(input_comes_back_with_greetings_in_it)
{
	static const char *const argv[] = { "cat", NULL };
	const size_t len = 3 << 20;
	const struct frame hello = { .type = MSG_HELLO, .body = { NULL, HELLO_BODY } };
	struct sink sink = { 0 };
	uint8_t *data = malloc(len);
	const struct command_spec spec = { .argv = argv,
		.env = env,
		.input = data,
		.input_len = len,
		.output = take_output,
		.self = &sink };
	struct command_result r;
	struct session *s;

	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	for (size_t i = 0; i + 2 * FRAME_HEADER < len; i += 99991)
		frame_put_header(data + i, &hello);
	start();
	s = new_caller();
	CHECK(command_run(s, &spec, clock_in(SOON), &r, &err));
	CHECK_INT(r.end, COMMAND_EXITED);
	CHECK_INT(sink.text.len, len);
	CHECK_MEM(sink.text.data, data, len);
	free(data);
	buf_release(&sink.text);
	session_free(s);
	stop();
}

/* Counted in bytes of the flood that go before the answer: time depends on what else the host does.
 * Most of one window is underway already; what overtakes the PING must not be more than another. */
TEST_WITHIN(a_flood_does_not_keep_a_ping_waiting, 60)
{
	struct sink sink = { .count = true };
	struct session *a, *b;
	struct command *c;
	uint64_t first, before, most = 0;

	start();
	a = new_caller();
	b = new_caller();
	c = begin(a, "exec cat /dev/zero", &sink);
	while (sink.bytes < 4ull * STREAM_WINDOW)
		CHECK(session_ping(b, clock_in(SOON), NULL, &err));
	first = sink.bytes;
	for (int i = 0; i < 500; i++) {
		before = sink.bytes;
		CHECK(session_ping(b, clock_in(SOON), NULL, &err));
		most = sink.bytes - before > most ? sink.bytes - before : most;
	}
	printf("# %lld bytes went before an answer at most\n", (long long)most);
	CHECK(most <= 2 * STREAM_WINDOW);
	CHECK(sink.bytes - first >= 16ull * STREAM_WINDOW);
	command_free(c);
	session_free(a);
	session_free(b);
	stop();
}

static bool window_is_full(const void *arg)
{
	return ((const struct sink *)arg)->kept == STREAM_WINDOW;
}

TEST(a_slow_caller_holds_up_nobody_else)
{
	struct sink sink = { .keep = STREAM_WINDOW };
	struct session *a, *b;
	struct command_result r;
	struct command *c;

	start();
	a = new_caller();
	b = new_caller();
	c = begin(a, "head -c 1000000 /dev/zero", &sink);
	CHECK(loop_until(&loop, window_is_full, &sink, clock_in(SOON), &err));
	says(b, "head -c 1000000 /dev/zero | wc -c", "1000000\n");
	CHECK_INT(command_result(c)->end, COMMAND_RUNS);
	CHECK_INT(sink.bytes, STREAM_WINDOW);
	command_consumed(c, PART_STDOUT, STREAM_WINDOW);
	r = end(c);
	CHECK_INT(r.stdout_bytes, 1000000);
	CHECK_INT(sink.bytes, 1000000);
	buf_release(&sink.text);
	session_free(a);
	session_free(b);
	stop();
}

static bool got_line(const void *arg)
{
	const struct sink *sink = arg;

	return sink->text.len && sink->text.data[sink->text.len - 1] == '\n';
}

/* The process with this number is gone, which is seen by one in the same guest. */
static void is_gone(struct session *s, const char *pid)
{
	char script[128];

	(void)snprintf(script, sizeof(script),
		"while kill -0 %ld 2>/dev/null; do :; done; echo gone", strtol(pid, NULL, 10));
	says(s, script, "gone\n");
}

TEST(what_a_caller_leaves_is_ended)
{
	struct sink sink = { 0 };
	struct session *a, *b;
	struct command *c;

	start();
	a = new_caller();
	b = new_caller();
	c = begin(a, "echo $$; exec sleep 1000", &sink);
	CHECK(loop_until(&loop, got_line, &sink, clock_in(SOON), &err));
	CHECK_INT(switchboard_operations(board), 1);
	session_free(a);
	command_free(c);
	CHECK(loop_until(&loop, nothing_runs, NULL, clock_in(SOON), &err));
	is_gone(b, buf_text(&sink.text));
	buf_release(&sink.text);
	session_free(b);
	stop();
}

TEST(sixteen_operations_for_all_callers)
{
	struct command *of_a[10], *of_b[10];
	struct session *a, *b;
	int busy = 0;

	start();
	a = new_caller();
	b = new_caller();
	for (int i = 0; i < 10; i++)
		of_a[i] = begin(a, "exec sleep 1000", NULL);
	CHECK(session_ping(a, clock_in(SOON), NULL, &err));
	for (int i = 0; i < 10; i++)
		of_b[i] = begin(b, "exec sleep 1000", NULL);
	CHECK(session_ping(b, clock_in(SOON), NULL, &err));
	for (int i = 0; i < 10; i++) {
		const struct command_result *r = command_result(of_b[i]);

		busy += r->end == COMMAND_FAILED && r->kind == FAIL_BUSY;
		command_free(of_b[i]);
	}
	CHECK_INT(busy, 4);
	session_free(a);
	for (int i = 0; i < 10; i++)
		command_free(of_a[i]);
	CHECK(loop_until(&loop, nothing_runs, NULL, clock_in(SOON), &err));
	says(b, "echo room", "room\n");
	session_free(b);
	stop();
}

TEST(trees_go_both_ways)
{
	char from[] = "/tmp/switchboard-XXXXXX", path[64], there[256];
	struct tree_report report;
	struct session *s;
	FILE *f;

	CHECK(mkdtemp(from));
	(void)snprintf(path, sizeof(path), "%s/file", from);
	f = fopen(path, "w");
	CHECK(f);
	for (int i = 0; i < 200000; i++)
		CHECK(fprintf(f, "%d\n", i) > 0);
	CHECK_INT(fclose(f), 0);
	(void)snprintf(there, sizeof(there), "%s-there", from);
	(void)snprintf(path, sizeof(path), "%s-back", from);
	start();
	s = new_caller();
	CHECK(session_put_tree(s, from, there, false, clock_in(SOON), &report, &err));
	CHECK(session_get_tree(s, there, path, false, clock_in(SOON), &report, &err));
	CHECK_INT(report.entries, 2);
	CHECK(!session_get_tree(
		s, "/no/such", "/tmp/nothing", false, clock_in(SOON), &report, &err));
	(void)snprintf(there, sizeof(there), "cmp %s/file %s/file", from, path);
	CHECK_SHELL(there);
	session_free(s);
	stop();
	(void)snprintf(there, sizeof(there), "rm -r %s %s-there %s-back", from, from, from);
	CHECK_SHELL(there);
}

TEST(a_terminal_has_the_size_that_was_said_last)
{
	static const char *const argv[] = { "sh", "-c", "read x; stty size", NULL };
	struct sink sink = { 0 };
	const struct command_spec spec = { .argv = argv,
		.env = env,
		.pty = true,
		.rows = 10,
		.columns = 20,
		.stream_input = true,
		.output = take_output,
		.self = &sink };
	struct session *s;
	struct command *c;

	start();
	s = new_caller();
	c = command_start(s, &spec, &err);
	CHECK(c);
	command_resize(c, 33, 44);
	CHECK_INT(command_input(c, "x\n", 2), 2);
	CHECK_INT(end(c).value, 0);
	CHECK(strstr(buf_text(&sink.text), "33 44"));
	buf_release(&sink.text);
	session_free(s);
	stop();
}

TEST(a_guest_that_starts_anew_is_told_to_all)
{
	struct session *a, *b;
	struct command *c;

	start();
	a = new_caller();
	b = new_caller();
	c = begin(a, "exec sleep 1000", NULL);
	CHECK(session_ping(a, clock_in(SOON), NULL, &err));
	stop_guest();
	CHECK_INT(end(c).end, COMMAND_LOST);
	CHECK(!session_broken(a) && !session_is_open(a));
	start_guest();
	CHECK(session_wait_open(a, clock_in(SOON), &err));
	CHECK(session_wait_open(b, clock_in(SOON), &err));
	CHECK_INT(session_greetings(a), 2);
	says(a, "echo again", "again\n");
	says(b, "echo again", "again\n");
	session_free(a);
	session_free(b);
	stop();
}
