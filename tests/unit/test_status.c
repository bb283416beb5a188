/* SPDX-License-Identifier: Apache-2.0 */
/* What STATUS says after a channel was attached again: counted, and judged. */
#include "peer.h"

#include "base/buf.h"

static struct peer p;

static const char *const argv_cat[] = { "cat", "-", NULL };

static size_t keep_all(void *self, enum stream_part part, const uint8_t *data, size_t len)
{
	(void)self;
	(void)part;
	(void)data;
	(void)len;
	return 0;
}

/* Takes DATA up to `len` bytes. True when the last was the end. */
static bool collect(uint32_t id, struct buf *got, size_t len)
{
	bool end = false;

	while (got->len < len) {
		struct frame f = expect(&p, MSG_DATA);

		CHECK_INT(f.stream, stream_of(id, PART_STDIN));
		buf_add(got, f.body.data, f.body.len);
		end = f.flags & FRAME_EOF;
	}
	CHECK_INT(got->len, len);
	return end;
}

static struct msg_query attach_and_expect_query(void)
{
	struct msg_query m;

	peer_hang_up(&p);
	peer_attach(&p, HELLO_HELD);
	CHECK(get_query(expect(&p, MSG_QUERY).body, &m));
	return m;
}

TEST(lost_output_is_counted_and_its_credit_comes_back)
{
	const struct command_spec spec = { .argv = argv_cat, .output = keep_all };
	struct msg_query query;
	struct command *c;
	uint32_t id, control;

	peer_open_kept(&p);
	id = peer_run(&p, &spec, &c);
	control = control_of(id);
	peer_say_output(&p, id, PART_STDOUT, 1000);
	query = attach_and_expect_query();
	CHECK_INT(query.stdout_credit, STREAM_WINDOW - 1000);
	/* All that there was credit for went into the void, twice. */
	query = attach_and_expect_query();
	SAY(&p, STATUS, status, control, .state = STATUS_RUNS,
		.stdout_bytes = 1000 + 2 * (STREAM_WINDOW - 1000), .stderr_bytes = 5);
	peer_say_output(&p, id, PART_STDOUT, query.stdout_credit);
	peer_say_output(&p, id, PART_STDERR, STREAM_WINDOW);
	peer_check_alive(&p);
	CHECK_INT(command_result(c)->output_lost, 2 * (STREAM_WINDOW - 1000) + 5);
	command_consumed(c, PART_STDOUT, STREAM_WINDOW);
	expect(&p, MSG_CREDIT);
	SAY(&p, EXIT, exit, control, .stdout_bytes = 1000 + 3 * (STREAM_WINDOW - 1000),
		.stderr_bytes = STREAM_WINDOW + 5);
	expect(&p, MSG_ACK);
	CHECK_INT(command_result(c)->stdout_bytes, STREAM_WINDOW);
	command_free(c);
	peer_release(&p);
}

TEST(what_is_used_up_without_a_channel_is_credit_for_the_next)
{
	const struct command_spec spec = { .argv = argv_cat, .output = keep_all };
	struct command *c;
	uint32_t id;

	peer_open_kept(&p);
	id = peer_run(&p, &spec, &c);
	peer_say_output(&p, id, PART_STDERR, STREAM_WINDOW);
	peer_hang_up(&p);
	command_consumed(c, PART_STDERR, STREAM_WINDOW - 7);
	peer_attach(&p, HELLO_HELD);
	{
		struct msg_query m;

		CHECK(get_query(expect(&p, MSG_QUERY).body, &m));
		CHECK_INT(m.stderr_credit, STREAM_WINDOW - 7);
	}
	SAY(&p, STATUS, status, control_of(id), .state = STATUS_RUNS,
		.stderr_bytes = STREAM_WINDOW);
	peer_check_alive(&p);
	/* It was granted by QUERY, so no CREDIT came; now one does. */
	CHECK(!p.has_frame);
	peer_say_output(&p, id, PART_STDERR, STREAM_WINDOW - 7);
	command_consumed(c, PART_STDERR, STREAM_WINDOW);
	expect(&p, MSG_CREDIT);
	command_free(c);
	peer_release(&p);
}

TEST(input_in_memory_goes_back_to_what_arrived)
{
	const size_t len = STREAM_WINDOW + 5000;
	uint8_t *data = make_input(len);
	const struct command_spec spec = { .argv = argv_cat, .input = data, .input_len = len };
	struct buf got = { 0 };
	struct command *c;
	uint32_t id, control;

	peer_open_kept(&p);
	id = peer_run(&p, &spec, &c);
	control = control_of(id);
	CHECK(!collect(id, &got, STREAM_WINDOW));
	attach_and_expect_query();
	SAY(&p, STATUS, status, control, .state = STATUS_RUNS, .stdin_bytes = 777,
		.stdin_credit = 100);
	got.len = 777;
	CHECK(!collect(id, &got, 877));
	SAY(&p, CREDIT, credit, stream_of(id, PART_STDIN), .bytes = STREAM_WINDOW - 777);
	CHECK(!collect(id, &got, STREAM_WINDOW + 100));
	SAY(&p, CREDIT, credit, stream_of(id, PART_STDIN), .bytes = 5000);
	CHECK(collect(id, &got, len));
	CHECK_MEM(got.data, data, len);
	/* Nobody knows whether the end arrived. */
	attach_and_expect_query();
	SAY(&p, STATUS, status, control, .state = STATUS_RUNS, .stdin_bytes = len);
	{
		struct frame f = expect(&p, MSG_DATA);

		CHECK_INT(f.body.len, 0);
		CHECK_INT(f.flags, FRAME_EOF);
	}
	command_free(c);
	buf_release(&got);
	free(data);
	peer_release(&p);
}

TEST(an_exec_that_never_came_gets_all_its_input)
{
	const struct command_spec spec = { .argv = argv_cat, .input = "abcdef", .input_len = 6 };
	struct buf got = { 0 };
	struct command *c;
	uint32_t id;

	peer_open_kept(&p);
	id = peer_begin(&p, &spec, &c);
	CHECK(collect(id, &got, 6));
	attach_and_expect_query();
	SAY(&p, STATUS, status, control_of(id), .state = STATUS_UNKNOWN);
	expect(&p, MSG_EXEC);
	got.len = 0;
	CHECK(collect(id, &got, 6));
	CHECK_MEM(got.data, "abcdef", 6);
	command_free(c);
	buf_release(&got);
	peer_release(&p);
}

TEST(streamed_input_that_did_not_arrive_is_sent_again)
{
	const struct command_spec spec = { .argv = argv_cat, .stream_input = true };
	struct buf got = { 0 };
	struct command *c;
	uint32_t id;

	peer_open_kept(&p);
	id = peer_run(&p, &spec, &c);
	CHECK_INT(command_input(c, "0123456789", 10), 10);
	CHECK(!collect(id, &got, 10));
	peer_hang_up(&p);
	CHECK_INT(command_input(c, "kept", 4), 4);
	peer_attach(&p, HELLO_HELD);
	expect(&p, MSG_QUERY);
	SAY(&p, STATUS, status, control_of(id), .state = STATUS_RUNS, .stdin_bytes = 3,
		.stdin_credit = STREAM_WINDOW - 3);
	CHECK(!collect(id, &got, 21));
	CHECK_MEM(got.data, "01234567893456789kept", 21);
	SAY(&p, CREDIT, credit, stream_of(id, PART_STDIN), .bytes = 7);
	attach_and_expect_query();
	SAY(&p, STATUS, status, control_of(id), .state = STATUS_RUNS, .stdin_bytes = 12,
		.stdin_credit = STREAM_WINDOW);
	CHECK(!collect(id, &got, 23));
	CHECK_MEM(got.data + 21, "pt", 2);
	command_free(c);
	buf_release(&got);
	peer_release(&p);
}

/* A command with 100 bytes of input sent, of which 10 are paid for, and 50 of output that came. */
static const struct lie {
	const char *why;
	struct msg_status m;
	unsigned times; /* it is said; 0: once */
} lies[] = {
	{ "less output than came", { STATUS_RUNS, 100, 0, 49, 0 }, 0 },
	{ "more output than there was credit", { STATUS_RUNS, 100, 0, 50 + STREAM_WINDOW, 0 }, 0 },
	{ "more output than there was credit", { STATUS_RUNS, 100, 0, 50, STREAM_WINDOW + 1 }, 0 },
	{ "more output than there was credit", { STATUS_RUNS, 100, 0, 50, UINT64_MAX }, 0 },
	{ "more input than was sent", { STATUS_RUNS, 101, 0, 50, 0 }, 0 },
	{ "less input than was paid for", { STATUS_ENDED, 9, 0, 50, 0 }, 0 },
	{ "malformed", { STATUS_RUNS, 100, STREAM_WINDOW + 1, 50, 0 }, 0 },
	{ "malformed", { STATUS_ENDED + 1, 100, 0, 50, 0 }, 0 },
	{ "nobody asked for", { STATUS_RUNS, 100, 0, 50, 0 }, 2 },
	{ "nobody asked for", { STATUS_ENDED, 10, STREAM_WINDOW, 50, 0 }, 2 },
};

static void check_lie(const struct lie *lie)
{
	static const uint8_t input[100];
	const struct command_spec spec = { .argv = argv_cat, .input = input, .input_len = 100 };
	struct buf got = { 0 };
	struct command *c;
	uint32_t id;

	peer_open_kept(&p);
	id = peer_run(&p, &spec, &c);
	CHECK(collect(id, &got, 100));
	SAY(&p, CREDIT, credit, stream_of(id, PART_STDIN), .bytes = 10);
	peer_say_output(&p, id, PART_STDOUT, 50);
	attach_and_expect_query();
	for (unsigned i = 0; i <= lie->times; i++) {
		uint8_t body[64];
		struct writer w = writer_of(body, sizeof(body));

		put_status(&w, &lie->m);
		peer_say(&p, MSG_STATUS, control_of(id), bytes_of(body, (size_t)(w.at - body)));
	}
	expect_broken(&p, lie->why);
	CHECK(strstr(session_broken(p.session), "STATUS"));
	CHECK_INT(command_result(c)->end, COMMAND_LOST);
	command_free(c);
	buf_release(&got);
	peer_release(&p);
}

TEST(lies_of_a_status_break_the_session)
{
	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++)
		check_lie(&lies[i]);
}

/* What a guest has had it can't have again: the buffer holds it no more. */
TEST(input_never_goes_back_behind_what_arrived)
{
	static const uint8_t zeros[STREAM_WINDOW];
	const struct command_spec spec = { .argv = argv_cat, .stream_input = true };

	for (int lie = 0; lie < 2; lie++) {
		struct buf got = { 0 };
		struct command *c;
		uint32_t id;

		peer_open_kept(&p);
		id = peer_begin(&p, &spec, &c);
		for (size_t n = 0; n < 2 * sizeof(zeros); n += 32768) {
			CHECK_INT(command_input(c, zeros, 32768), 32768);
			CHECK(!collect(id, &got, n + 32768));
			SAY(&p, CREDIT, credit, stream_of(id, PART_STDIN), .bytes = 32768);
			peer_check_alive(&p);
		}
		attach_and_expect_query();
		if (lie) {
			SAY(&p, STATUS, status, control_of(id), .state = STATUS_RUNS,
				.stdin_bytes = 2 * sizeof(zeros));
			attach_and_expect_query();
			SAY(&p, STATUS, status, control_of(id), .state = STATUS_RUNS,
				.stdin_bytes = sizeof(zeros));
		} else {
			SAY(&p, STATUS, status, control_of(id), .state = STATUS_UNKNOWN);
		}
		expect_broken(&p, "paid for");
		command_free(c);
		buf_release(&got);
		peer_release(&p);
	}
}

TEST(a_status_that_nobody_asked_for_breaks_the_session)
{
	const struct command_spec spec = { .argv = argv_cat };
	struct command *c;
	uint32_t id;

	peer_open(&p);
	id = peer_run(&p, &spec, &c);
	SAY(&p, STATUS, status, control_of(id), .state = STATUS_RUNS);
	expect_broken(&p, "STATUS: that nobody asked for");
	command_free(c);
	peer_release(&p);
}

TEST(what_comes_before_its_status_breaks_the_session)
{
	static const struct {
		unsigned type;
		enum stream_part part;
	} words[] = { { MSG_DATA, PART_STDOUT }, { MSG_EXIT, PART_CONTROL },
		{ MSG_DONE, PART_CONTROL } };
	const struct command_spec spec = { .argv = argv_cat };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		struct command *c;
		uint32_t id;

		peer_open_kept(&p);
		id = peer_run(&p, &spec, &c);
		attach_and_expect_query();
		peer_say(&p, words[i].type, stream_of(id, words[i].part), bytes_of("x", 1));
		expect_broken(&p, "before its STATUS");
		command_free(c);
		peer_release(&p);
	}
}

TEST(totals_of_an_exit_count_what_got_lost)
{
	const struct command_spec spec = { .argv = argv_cat };
	struct command *c;
	uint32_t id, control;

	peer_open_kept(&p);
	id = peer_run(&p, &spec, &c);
	control = control_of(id);
	attach_and_expect_query();
	SAY(&p, STATUS, status, control, .state = STATUS_RUNS, .stdout_bytes = 10);
	SAY(&p, EXIT, exit, control, .stdout_bytes = 0);
	expect_broken(&p, "EXIT: totals that differ from what came");
	command_free(c);
	peer_release(&p);
}
