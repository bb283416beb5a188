/* SPDX-License-Identifier: Apache-2.0 */
/* Commands and transfers against a guest by hand: streams, credit, ends, and late words. */
#include "peer.h"

#include <stdlib.h>

#include "base/buf.h"

static struct peer p;
static struct err err;

static const char *const argv_cat[] = { "cat", "-", NULL };

/* What came, and how much of each piece is used up at once. */
struct sink {
	struct buf text[2];
	bool keep;		   /* use nothing up */
	struct command *free_this; /* in the middle of the first piece */
};

static size_t take_output(void *self, enum stream_part part, const uint8_t *data, size_t len)
{
	struct sink *sink = self;

	buf_add(&sink->text[part - PART_STDOUT], data, len);
	command_free(sink->free_this);
	sink->free_this = NULL;
	return sink->keep ? 0 : len;
}

static uint32_t run_cat(struct sink *sink, struct command **ret_command)
{
	const struct command_spec spec = { .argv = argv_cat, .output = take_output, .self = sink };

	return peer_run(&p, &spec, ret_command);
}

static void say_exit(uint32_t id, uint64_t stdout_bytes)
{
	SAY(&p, EXIT, exit, control_of(id), .value = 3, .stdout_bytes = stdout_bytes);
}

static void expect_ack(uint32_t id)
{
	CHECK_INT(expect(&p, MSG_ACK).stream, control_of(id));
}

static void expect_credit(uint32_t stream, uint32_t bytes)
{
	struct frame f = expect(&p, MSG_CREDIT);
	struct msg_credit m;

	CHECK(get_credit(f.body, &m));
	CHECK_INT(f.stream, stream);
	CHECK_INT(m.bytes, bytes);
}

TEST(exec_says_all_of_the_spec)
{
	const char *const argv[] = { "sh", "-c", "echo \"$1\"", "", NULL };
	const char *const env[] = { "A=b c", NULL };
	const struct command_spec spec = {
		.argv = argv,
		.env = env,
		.dir = "/tmp",
		.agent_root = true,
		.deadline_ms = 1234,
		.grace_ms = 99,
	};
	struct msg_exec m;
	struct command *c;

	peer_open(&p);
	c = command_start(p.session, &spec, &err);
	CHECK(get_exec(expect(&p, MSG_EXEC).body, &m));
	CHECK_INT(m.flags, EXEC_AGENT_ROOT);
	CHECK_INT(m.deadline_ms, 1234);
	CHECK_INT(m.grace_ms, 99);
	CHECK_INT(m.argc, 4);
	CHECK_MEM(m.argv[2].data, argv[2], m.argv[2].len);
	CHECK_INT(m.argv[3].len, 0);
	CHECK_INT(m.envc, 1);
	CHECK_MEM(m.env[0].data, env[0], m.env[0].len);
	CHECK_INT(m.dir.len, 4);
	command_free(c);
	peer_release(&p);
}

TEST(output_and_exit_arrive)
{
	struct sink sink = { 0 };
	const struct command_result *result;
	struct command *c;
	uint32_t id;

	peer_open(&p);
	id = run_cat(&sink, &c);
	peer_say(&p, MSG_DATA, stream_of(id, PART_STDOUT), bytes_str("out"));
	peer_say(&p, MSG_DATA, stream_of(id, PART_STDERR), bytes_str("error"));
	peer_say_as(&p, p.tag, MSG_DATA, stream_of(id, PART_STDOUT), FRAME_EOF, "!", 1);
	SAY(&p, EXIT, exit, control_of(id), .flags = EXIT_SIGNALLED | EXIT_TIMED_OUT, .value = 15,
		.stdout_bytes = 4, .stderr_bytes = 5, .left_behind = 2);
	expect_ack(id);
	result = command_result(c);
	CHECK_INT(result->end, COMMAND_SIGNALLED);
	CHECK_INT(result->value, 15);
	CHECK(result->timed_out && !result->cancelled);
	CHECK_INT(result->left_behind, 2);
	CHECK_STR(buf_text(&sink.text[0]), "out!");
	CHECK_STR(buf_text(&sink.text[1]), "error");
	command_free(c);
	buf_release(&sink.text[0]);
	buf_release(&sink.text[1]);
	peer_release(&p);
}

TEST(only_what_is_used_up_is_paid_back)
{
	struct sink sink = { .keep = true };
	struct command *c;
	uint32_t id;

	peer_open(&p);
	id = run_cat(&sink, &c);
	peer_say_output(&p, id, PART_STDOUT, STREAM_WINDOW);
	sink.keep = false;
	peer_say_output(&p, id, PART_STDERR, STREAM_WINDOW / 4);
	expect_credit(stream_of(id, PART_STDERR), STREAM_WINDOW / 4);
	command_consumed(c, PART_STDOUT, STREAM_WINDOW / 2);
	expect_credit(stream_of(id, PART_STDOUT), STREAM_WINDOW / 2);
	peer_say_output(&p, id, PART_STDOUT, STREAM_WINDOW / 2);
	say_exit(id, STREAM_WINDOW);
	expect_broken(&p, "EXIT: totals");
	command_consumed(c, PART_STDOUT, 1);
	command_free(c);
	buf_release(&sink.text[0]);
	buf_release(&sink.text[1]);
	peer_release(&p);
}

TEST(more_than_the_credit_breaks_the_session)
{
	struct sink sink = { .keep = true };
	struct command *c;
	uint32_t id;

	peer_open(&p);
	id = run_cat(&sink, &c);
	peer_say_output(&p, id, PART_STDOUT, STREAM_WINDOW + 1);
	expect_broken(&p, "DATA: more bytes than there was credit for");
	CHECK_INT(sink.text[0].len, STREAM_WINDOW);
	CHECK_INT(command_result(c)->end, COMMAND_LOST);
	command_free(c);
	buf_release(&sink.text[0]);
	peer_release(&p);
}

static void check_command_breaks(
	bool started, unsigned type, enum stream_part part, struct bytes body, const char *why)
{
	const struct command_spec spec = { .argv = argv_cat };
	struct command *c;
	uint32_t id;

	peer_open(&p);
	id = started ? peer_run(&p, &spec, &c) : peer_begin(&p, &spec, &c);
	peer_say(&p, type, stream_of(id, part), body);
	expect_broken(&p, why);
	CHECK_INT(command_result(c)->end, COMMAND_LOST);
	command_free(c);
	peer_release(&p);
}

TEST(the_order_of_a_command_is_kept)
{
	static const uint8_t exit_0[42], size_0[16], grant_1[] = { 0, 0, 0, 1 }, pid[4];
	static const uint8_t failed[] = { 0, 1, 0, 0, 0, 0, 0, 0, 0, 0 };
	static const uint8_t signal_0[42] = { 0, EXIT_SIGNALLED };

#define B(b) bytes_of(b, sizeof(b))
	check_command_breaks(false, MSG_EXIT, PART_CONTROL, B(exit_0), "no command that had");
	check_command_breaks(false, MSG_DATA, PART_STDOUT, B(pid), "no command that had started");
	check_command_breaks(true, MSG_STARTED, PART_CONTROL, B(pid), "what had started");
	check_command_breaks(true, MSG_FAILED, PART_CONTROL, B(failed), "had started");
	check_command_breaks(true, MSG_DONE, PART_CONTROL, B(size_0), "no transfer");
	check_command_breaks(true, MSG_CREDIT, PART_STDIN, B(grant_1), "more than was sent");
	check_command_breaks(true, MSG_EXIT, PART_CONTROL, B(signal_0), "malformed");
#undef B
}

TEST(a_failure_has_a_kind_and_a_printable_text)
{
	const struct command_spec spec = { .argv = argv_cat };
	char text[TEXT_MAX];
	struct command *c;
	uint32_t id;

	memset(text, 'x', sizeof(text));
	memcpy(text, "\033[2J\xff\n", 6);
	peer_open(&p);
	id = peer_begin(&p, &spec, &c);
	SAY(&p, FAILED, failed, control_of(id), .kind = FAIL_NOT_FOUND, .error = 2,
		.text = bytes_of(text, sizeof(text)));
	peer_check_alive(&p);
	CHECK_INT(command_result(c)->end, COMMAND_FAILED);
	CHECK_INT(command_result(c)->kind, FAIL_NOT_FOUND);
	CHECK_INT(strlen(command_result(c)->text), TEXT_MAX);
	CHECK(!strncmp(command_result(c)->text, "?[2J??xxx", 9));
	peer_release(&p);
	command_free(c);
}

TEST(too_long_a_text_of_a_failure_is_malformed)
{
	uint8_t body[10 + TEXT_MAX + 1];
	struct writer w = writer_of(body, sizeof(body));

	memset(body, 'x', sizeof(body));
	put_u16(&w, FAIL_NOT_FOUND);
	put_u32(&w, 2);
	put_u32(&w, TEXT_MAX + 1);
	check_command_breaks(false, MSG_FAILED, PART_CONTROL, bytes_of(body, sizeof(body)),
		"FAILED: a malformed body");
}

TEST(a_freed_command_is_cancelled_paid_for_and_ignored)
{
	struct sink sink = { .keep = true };
	struct command *c;
	uint32_t id;

	peer_open(&p);
	id = run_cat(&sink, &c);
	peer_say_output(&p, id, PART_STDOUT, STREAM_WINDOW / 2);
	peer_check_alive(&p);
	command_free(c);
	CHECK_INT(expect(&p, MSG_CANCEL).stream, control_of(id));
	expect_credit(stream_of(id, PART_STDOUT), STREAM_WINDOW / 2);
	peer_say_output(&p, id, PART_STDOUT, STREAM_WINDOW / 4);
	expect_credit(stream_of(id, PART_STDOUT), STREAM_WINDOW / 4);
	CHECK_INT(sink.text[0].len, STREAM_WINDOW / 2);
	say_exit(id, 3 * STREAM_WINDOW / 4);
	expect_ack(id);
	peer_say_output(&p, id, PART_STDERR, 5);
	say_exit(id, 1);
	SAY(&p, CREDIT, credit, stream_of(id, PART_STDIN), .bytes = 1);
	peer_check_alive(&p);
	buf_release(&sink.text[0]);
	peer_release(&p);
}

TEST(a_command_may_be_freed_by_its_own_output)
{
	struct sink sink = { .keep = true };
	uint32_t id;

	peer_open(&p);
	id = run_cat(&sink, &sink.free_this);
	peer_say_output(&p, id, PART_STDOUT, STREAM_WINDOW / 4);
	CHECK_INT(expect(&p, MSG_CANCEL).stream, control_of(id));
	expect_credit(stream_of(id, PART_STDOUT), STREAM_WINDOW / 4);
	buf_release(&sink.text[0]);
	peer_release(&p);
}

/* Takes DATA until `want` bytes have come in all. True when it was the end. */
static bool collect(uint32_t id, struct buf *got, size_t want)
{
	while (got->len < want) {
		struct frame f = expect(&p, MSG_DATA);

		CHECK_INT(f.stream, stream_of(id, PART_STDIN));
		CHECK(f.body.len <= BULK_CHUNK);
		buf_add(got, f.body.data, f.body.len);
		if (f.flags & FRAME_EOF)
			return true;
	}
	CHECK_INT(got->len, want);
	return false;
}

TEST(input_flows_within_credit)
{
	const size_t len = 2 * STREAM_WINDOW + 1000;
	uint8_t *data = make_input(len);
	const struct command_spec spec = { .argv = argv_cat, .input = data, .input_len = len };
	struct buf got = { 0 };
	struct command *c;
	uint32_t id;

	peer_open(&p);
	id = peer_run(&p, &spec, &c);
	CHECK(!collect(id, &got, STREAM_WINDOW));
	peer_check_alive(&p);
	SAY(&p, CREDIT, credit, stream_of(id, PART_STDIN), .bytes = 5);
	CHECK(!collect(id, &got, STREAM_WINDOW + 5));
	SAY(&p, CREDIT, credit, stream_of(id, PART_STDIN), .bytes = STREAM_WINDOW);
	CHECK(!collect(id, &got, 2 * STREAM_WINDOW + 5));
	SAY(&p, CREDIT, credit, stream_of(id, PART_STDIN), .bytes = STREAM_WINDOW);
	CHECK(collect(id, &got, SIZE_MAX));
	CHECK_INT(got.len, len);
	CHECK_MEM(got.data, data, len);
	command_free(c);
	buf_release(&got);
	free(data);
	peer_release(&p);
}

TEST(empty_input_is_an_end_of_file)
{
	const struct command_spec spec = { .argv = argv_cat, .input = "" };
	struct command *c;
	struct msg_exec m;
	struct frame f;

	peer_open(&p);
	c = command_start(p.session, &spec, &err);
	CHECK(get_exec(expect(&p, MSG_EXEC).body, &m));
	CHECK_INT(m.flags, EXEC_STDIN);
	f = expect(&p, MSG_DATA);
	CHECK_INT(f.body.len, 0);
	CHECK_INT(f.flags, FRAME_EOF);
	command_free(c);
	peer_release(&p);
}

TEST(a_full_table_and_a_full_outbox_lose_nothing)
{
	static char big[60000];
	const char *const argv[] = { "echo", big, NULL };
	const struct command_spec spec = { .argv = argv };
	struct command *c[OPERATIONS_MAX];
	uint32_t id = 0;

	memset(big, 'b', sizeof(big) - 1);
	peer_open(&p);
	for (int i = 0; i < OPERATIONS_MAX; i++)
		CHECK(c[i] = command_start(p.session, &spec, &err));
	CHECK(!command_start(p.session, &spec, &err));
	CHECK_INT(err.code, ERR_LIMIT);
	/* Not sent yet, so it never will be. */
	command_free(c[OPERATIONS_MAX - 1]);
	for (uint32_t i = 1; i < OPERATIONS_MAX; i++) {
		id = stream_id(expect(&p, MSG_EXEC).stream);
		CHECK_INT(id, i);
	}
	SAY(&p, STARTED, started, control_of(id), .pid = 7);
	say_exit(id, 0);
	expect_ack(id);
	for (int i = 0; i < OPERATIONS_MAX - 1; i++)
		command_free(c[i]);
	peer_release(&p);
}

TEST(what_does_not_fit_is_refused_with_a_reason)
{
	static char big[CONTROL_QUEUE];
	static const char *many[ARGS_MAX + 2];
	const char *const too_big[] = { "echo", big, NULL };
	struct command_spec spec = { .argv = too_big };

	memset(big, 'b', sizeof(big) - 1);
	for (int i = 0; i <= ARGS_MAX; i++)
		many[i] = "x";
	peer_open(&p);
	CHECK(!command_start(p.session, &spec, &err));
	CHECK_INT(err.code, ERR_LIMIT);
	spec.argv = many;
	CHECK(!command_start(p.session, &spec, &err));
	CHECK_INT(err.code, ERR_LIMIT);
	spec.argv = argv_cat;
	spec.env = many;
	CHECK(!command_start(p.session, &spec, &err));
	CHECK_INT(err.code, ERR_LIMIT);
	spec.env = NULL;
	spec.dir = big;
	CHECK(!command_start(p.session, &spec, &err));
	CHECK_INT(err.code, ERR_LIMIT);
	spec.argv = &many[ARGS_MAX + 1];
	CHECK(!command_start(p.session, &spec, &err));
	CHECK_INT(err.code, ERR_INPUT);
	peer_release(&p);
}

TEST(run_gives_up_at_its_deadline_and_cancels)
{
	const struct command_spec spec = { .argv = argv_cat };
	struct command_result result;

	peer_open(&p);
	CHECK(!command_run(p.session, &spec, clock_in(30), &result, &err));
	CHECK_INT(err.code, ERR_TIME);
	CHECK(strstr(err.text, "cat"));
	expect(&p, MSG_EXEC);
	expect(&p, MSG_CANCEL);
	peer_release(&p);
}
