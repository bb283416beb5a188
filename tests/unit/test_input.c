/* SPDX-License-Identifier: Apache-2.0 */
/* What a running command is given: input by and by, signals, sizes of its terminal. */
#include "peer.h"

#include "base/buf.h"

static struct peer p;
static struct err err;

static const char *const argv_cat[] = { "cat", "-", NULL };

/* What it calls back finds the command in its place. */
static void start_in(struct command **c, const struct command_spec *spec)
{
	*c = command_start(p.session, spec, &err);
	CHECK(*c);
	SAY(&p, STARTED, started, expect(&p, MSG_EXEC).stream, .pid = 7);
}

static struct command *start(const struct command_spec *spec)
{
	struct command *c;

	start_in(&c, spec);
	return c;
}

TEST(exec_says_user_terminal_and_limit)
{
	const struct command_spec spec = { .argv = argv_cat,
		.user = "nobody",
		.pty = true,
		.rows = 24,
		.columns = 80,
		.output_max = 1ull << 40,
		.stream_input = true };
	static struct msg_exec m;
	struct command *c;

	peer_open(&p);
	c = command_start(p.session, &spec, &err);
	CHECK(get_exec(expect(&p, MSG_EXEC).body, &m));
	CHECK_INT(m.flags, EXEC_STDIN | EXEC_PTY);
	CHECK_INT(m.rows, 24);
	CHECK_INT(m.columns, 80);
	CHECK_INT(m.output_max, 1ull << 40);
	CHECK_INT(m.user.len, 6);
	command_free(c);
	CHECK(!command_start(p.session,
		&(struct command_spec){
			.argv = argv_cat, .user = "a-user-with-a-name-of-33-bytes-xx" },
		&err));
	CHECK_INT(err.code, ERR_LIMIT);
	peer_release(&p);
}

TEST(a_terminal_has_no_second_output)
{
	const struct command_spec spec = { .argv = argv_cat, .pty = true };
	struct command *c;

	peer_open(&p);
	c = start(&spec);
	peer_say(&p, MSG_DATA, stream_of(1, PART_STDERR), bytes_str("x"));
	expect_broken(&p, "DATA");
	command_free(c);
	peer_release(&p);
}

TEST(exit_names_what_is_left_and_what_was_cut)
{
	const struct command_spec spec = { .argv = argv_cat, .output_max = 3 };
	const struct command_result *r;
	struct command *c;

	peer_open(&p);
	c = start(&spec);
	peer_say(&p, MSG_DATA, stream_of(1, PART_STDOUT), bytes_str("abc"));
	SAY(&p, EXIT, exit, stream_of(1, PART_CONTROL), .stdout_bytes = 3, .stdout_cut = 1ull << 50,
		.left_behind = 5, .listed = 2,
		.left = { { 17, bytes_str("sleep") }, { 18, bytes_str("a\033[2J\xff") } });
	expect(&p, MSG_ACK);
	r = command_result(c);
	CHECK_INT(r->stdout_cut, 1ull << 50);
	CHECK_INT(r->left_behind, 5);
	CHECK_INT(r->listed, 2);
	CHECK_INT(r->left[0].pid, 17);
	CHECK_STR(r->left[0].name, "sleep");
	CHECK_STR(r->left[1].name, "a?[2J?");
	command_free(c);
	peer_release(&p);
}

TEST(a_cut_that_nobody_wanted_breaks_the_session)
{
	static const struct {
		uint64_t max, bytes, cut;
	} lies[] = { { 0, 3, 1 }, { 10, 3, 1 }, { 2, 3, 0 } };

	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		const struct command_spec spec = { .argv = argv_cat, .output_max = lies[i].max };
		struct command *c;

		peer_open(&p);
		c = start(&spec);
		peer_say(&p, MSG_DATA, stream_of(1, PART_STDOUT), bytes_str("abc"));
		SAY(&p, EXIT, exit, stream_of(1, PART_CONTROL), .stdout_bytes = lies[i].bytes,
			.stdout_cut = lies[i].cut);
		expect_broken(&p, "EXIT: totals that differ from what was wanted");
		command_free(c);
		peer_release(&p);
	}
}

/* A giver of input that has `len` bytes, and ends then. */
struct giver {
	struct command *command;
	const uint8_t *data;
	size_t at, len;
	unsigned calls;
};

static void give(void *self)
{
	struct giver *g = self;

	g->calls++;
	g->at += command_input(g->command, g->data + g->at, g->len - g->at);
	if (g->at == g->len)
		command_input_end(g->command);
}

TEST(input_is_asked_for_as_there_is_room)
{
	const size_t len = 3 * STREAM_WINDOW + 123;
	struct giver g = { .data = make_input(len), .len = len };
	const struct command_spec spec = {
		.argv = argv_cat, .stream_input = true, .input_wanted = give, .self = &g
	};
	struct buf got = { 0 };
	bool end = false;

	peer_open(&p);
	start_in(&g.command, &spec);
	while (!end) {
		struct frame f = expect(&p, MSG_DATA);
		size_t n = f.body.len;

		CHECK(n <= BULK_CHUNK);
		buf_add(&got, f.body.data, n);
		end = f.flags & FRAME_EOF;
		/* What was sent and what waits is bounded. */
		CHECK(g.at - got.len <= STREAM_WINDOW + 65536);
		if (n)
			SAY(&p, CREDIT, credit, f.stream, .bytes = (uint32_t)n);
	}
	CHECK_INT(got.len, len);
	CHECK_MEM(got.data, g.data, len);
	CHECK(g.calls <= 2 + len / 32768);
	command_free(g.command);
	buf_release(&got);
	free((void *)(uintptr_t)g.data);
	peer_release(&p);
}

TEST(input_without_credit_waits_in_a_bounded_buffer)
{
	static const uint8_t zeros[2 * STREAM_WINDOW];
	struct giver g = { .data = zeros, .len = sizeof(zeros) };
	const struct command_spec spec = {
		.argv = argv_cat, .stream_input = true, .input_wanted = give, .self = &g
	};
	size_t got = 0;

	peer_open(&p);
	start_in(&g.command, &spec);
	while (got < STREAM_WINDOW)
		got += expect(&p, MSG_DATA).body.len;
	peer_check_alive(&p);
	CHECK_INT(g.at, STREAM_WINDOW + 65536);
	CHECK_INT(command_input(g.command, zeros, 5), 0);
	SAY(&p, CREDIT, credit, stream_of(1, PART_STDIN), .bytes = 10);
	CHECK_INT(expect(&p, MSG_DATA).body.len, 10);
	CHECK_INT(command_input(g.command, zeros, 11), 10);
	SAY(&p, EXIT, exit, stream_of(1, PART_CONTROL), .value = 0);
	expect(&p, MSG_ACK);
	/* One that has ended takes all, and wants no more. */
	CHECK_INT(command_input(g.command, zeros, sizeof(zeros)), sizeof(zeros));
	command_input_end(g.command);
	command_signal(g.command, 15);
	command_resize(g.command, 1, 2);
	peer_check_alive(&p);
	command_free(g.command);
	peer_release(&p);
}

TEST(the_end_of_input_may_come_alone)
{
	const struct command_spec spec = { .argv = argv_cat, .stream_input = true };
	struct command *c;
	struct frame f;

	peer_open(&p);
	c = start(&spec);
	CHECK_INT(command_input(c, "x", 1), 1);
	f = expect(&p, MSG_DATA);
	CHECK_INT(f.flags, 0);
	command_input_end(c);
	f = expect(&p, MSG_DATA);
	CHECK_INT(f.body.len, 0);
	CHECK_INT(f.flags, FRAME_EOF);
	command_free(c);
	peer_release(&p);
}

static void free_it(void *self)
{
	struct command **c = self;

	command_free(*c);
	*c = NULL;
}

TEST(a_command_may_be_freed_where_its_input_is_wanted)
{
	static struct command *c;
	const struct command_spec spec = {
		.argv = argv_cat, .stream_input = true, .input_wanted = free_it, .self = &c
	};

	peer_open(&p);
	c = command_start(p.session, &spec, &err);
	expect(&p, MSG_EXEC);
	expect(&p, MSG_CANCEL);
	CHECK(!c);
	peer_release(&p);
}

TEST(streams_of_input_take_turns)
{
	static const uint8_t zeros[STREAM_WINDOW];
	const struct command_spec spec = {
		.argv = argv_cat, .input = zeros, .input_len = sizeof(zeros)
	};
	unsigned frames[4] = { 0 };
	struct command *c[3];

	peer_open(&p);
	for (int i = 0; i < 3; i++)
		CHECK(c[i] = command_start(p.session, &spec, &err));
	for (int i = 0; i < 3; i++)
		expect(&p, MSG_EXEC);
	for (int i = 0; i < 18; i++) {
		struct frame f = expect(&p, MSG_DATA);

		frames[stream_id(f.stream)]++;
		for (int k = 1; k <= 3; k++)
			CHECK(frames[k] <= (unsigned)i / 3 + 1);
	}
	for (int i = 0; i < 3; i++)
		command_free(c[i]);
	peer_release(&p);
}

static void expect_signal(int number)
{
	struct msg_signal m;

	CHECK(get_signal(expect(&p, MSG_SIGNAL).body, &m));
	CHECK_INT(m.number, number);
}

static void expect_resize(int rows, int columns)
{
	struct msg_resize m;

	CHECK(get_resize(expect(&p, MSG_RESIZE).body, &m));
	CHECK_INT(m.rows, rows);
	CHECK_INT(m.columns, columns);
}

TEST(signals_keep_their_order_and_sizes_replace_each_other)
{
	const struct command_spec spec = { .argv = argv_cat, .pty = true, .rows = 1, .columns = 1 };
	struct command *c;

	peer_open(&p);
	c = start(&spec);
	/* While PREPARE is under way all of it waits. */
	CHECK(!session_prepare(p.session, 700, clock_in(30), &err));
	expect(&p, MSG_PREPARE);
	for (int round = 0; round < 2; round++)
		for (int i = 64; i >= 1; i--)
			command_signal(c, i);
	for (uint16_t i = 1; i <= 100; i++)
		command_resize(c, i, 80);
	SAY(&p, PREPARED, prepared, 0, .error = 95);
	for (int i = 64; i >= 1; i--)
		expect_signal(i);
	expect_resize(100, 80);
	command_signal(c, 2);
	expect_signal(2);
	command_signal(c, 2);
	expect_signal(2);
	peer_check_alive(&p);
	CHECK(!p.has_frame);
	command_free(c);
	peer_release(&p);
}

TEST(what_has_no_terminal_has_no_size)
{
	const struct command_spec spec = { .argv = argv_cat };
	struct command *c;

	peer_open(&p);
	c = start(&spec);
	command_resize(c, 3, 4);
	peer_check_alive(&p);
	CHECK(!p.has_frame);
	command_free(c);
	peer_release(&p);
}
