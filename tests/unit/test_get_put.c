/* SPDX-License-Identifier: Apache-2.0 */
/* GET and PUT as operations, against a guest by hand; what is in their streams is not looked at. */
#include "peer.h"

#include "base/buf.h"
#include "link/internal.h"
#include "link/tree.h"

static struct peer p;
static struct err err;

static size_t take_output(void *self, enum stream_part part, const uint8_t *data, size_t len)
{
	CHECK_INT(part, PART_STDOUT);
	buf_add(self, data, len);
	return len;
}

static struct command *get(struct buf *got)
{
	const struct transfer_spec spec = {
		.type = MSG_GET,
		.flags = TREE_MANIFEST,
		.path = "/etc",
		.output = take_output,
		.self = got,
	};
	struct command *c = transfer_start(p.session, &spec, &err);
	struct msg_get m;

	CHECK(c);
	CHECK(get_get(expect(&p, MSG_GET).body, &m));
	CHECK_INT(m.flags, TREE_MANIFEST);
	CHECK_INT(m.path.len, 4);
	SAY(&p, STARTED, started, stream_of(1, PART_CONTROL), .pid = 0);
	return c;
}

static void say_end(const char *text)
{
	peer_say_as(&p, p.tag, MSG_DATA, stream_of(1, PART_STDOUT), FRAME_EOF, text, strlen(text));
}

TEST(a_get_gives_its_stream)
{
	struct buf got = { 0 };
	struct command *c;

	peer_open(&p);
	c = get(&got);
	peer_say(&p, MSG_DATA, stream_of(1, PART_STDOUT), bytes_str("abc"));
	say_end("def");
	SAY(&p, DONE, done, stream_of(1, PART_CONTROL), .entries = 2, .bytes = 6);
	expect(&p, MSG_ACK);
	CHECK(transfer_succeeded(c, &err));
	CHECK_INT(c->done.entries, 2);
	CHECK_INT(c->done.bytes, 6);
	CHECK_STR(buf_text(&got), "abcdef");
	command_free(c);
	buf_release(&got);
	peer_release(&p);
}

TEST(a_get_may_fail_at_any_time)
{
	struct buf got = { 0 };
	struct command *c;

	peer_open(&p);
	c = get(&got);
	peer_say(&p, MSG_DATA, stream_of(1, PART_STDOUT), bytes_str("abc"));
	SAY(&p, FAILED, failed, stream_of(1, PART_CONTROL), .kind = FAIL_FILE, .error = 5,
		.text = bytes_str("/etc/x: Input/output error"));
	peer_check_alive(&p);
	CHECK(!transfer_succeeded(c, &err));
	CHECK_INT(err.code, ERR_INPUT);
	CHECK_STR(err.text, "/etc/x: Input/output error");
	command_free(c);
	c = get(&got);
	SAY(&p, FAILED, failed, stream_of(2, PART_CONTROL), .kind = FAIL_BUSY,
		.text = bytes_str("too many"));
	peer_check_alive(&p);
	CHECK(!transfer_succeeded(c, &err));
	CHECK_INT(err.code, ERR_PEER);
	command_free(c);
	buf_release(&got);
	peer_release(&p);
}

static void say_done_at_once(void)
{
	SAY(&p, DONE, done, stream_of(1, PART_CONTROL), .bytes = 0);
}

static void say_too_few(void)
{
	say_end("abc");
	SAY(&p, DONE, done, stream_of(1, PART_CONTROL), .bytes = 2);
}

static void say_more_after_the_end(void)
{
	say_end("");
	say_end("");
}

static void say_errors(void)
{
	peer_say(&p, MSG_DATA, stream_of(1, PART_STDERR), bytes_str("x"));
}

static void say_exit(void)
{
	say_end("");
	SAY(&p, EXIT, exit, stream_of(1, PART_CONTROL), .value = 0);
}

static void say_credit(void)
{
	SAY(&p, CREDIT, credit, stream_of(1, PART_STDIN), .bytes = 1);
}

TEST(a_get_that_lies_breaks_the_session)
{
	static const struct {
		void (*say)(void);
		const char *why;
	} lies[] = {
		{ say_done_at_once, "no transfer that was about to end" },
		{ say_too_few, "a size that differs" },
		{ say_more_after_the_end, "after the end of the stream" },
		{ say_errors, "DATA" },
		{ say_exit, "EXIT: for no command" },
		{ say_credit, "CREDIT" },
	};

	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		struct buf got = { 0 };
		struct command *c;

		peer_open(&p);
		c = get(&got);
		lies[i].say();
		expect_broken(&p, lies[i].why);
		CHECK(!transfer_succeeded(c, &err));
		command_free(c);
		buf_release(&got);
		peer_release(&p);
	}
}

static struct command *putting;
static size_t given;

static void give(void *self)
{
	static const uint8_t zeros[3 * STREAM_WINDOW];

	(void)self;
	given += command_input(putting, zeros, sizeof(zeros) - given);
	if (given == sizeof(zeros))
		command_input_end(putting);
}

TEST(a_put_takes_its_stream_by_and_by)
{
	const struct transfer_spec spec = { .type = MSG_PUT, .path = "/a", .input_wanted = give };
	uint64_t bytes = 0;
	struct msg_put m;
	struct frame f;

	peer_open(&p);
	putting = transfer_start(p.session, &spec, &err);
	CHECK(get_put(expect(&p, MSG_PUT).body, &m));
	CHECK_INT(m.flags, 0);
	SAY(&p, STARTED, started, stream_of(1, PART_CONTROL), .pid = 0);
	do {
		f = expect(&p, MSG_DATA);
		bytes += f.body.len;
		SAY(&p, CREDIT, credit, f.stream, .bytes = (uint32_t)f.body.len);
	} while (!(f.flags & FRAME_EOF));
	SAY(&p, DONE, done, stream_of(1, PART_CONTROL), .entries = 1, .bytes = bytes);
	expect(&p, MSG_ACK);
	CHECK(transfer_succeeded(putting, &err));
	CHECK_INT(putting->done.bytes, given);
	command_free(putting);
	peer_release(&p);
}

TEST(a_path_in_the_guest_is_absolute_and_short)
{
	static char longest[PATH_LENGTH + 1];
	struct transfer_spec spec = { .type = MSG_GET, .path = "etc" };

	peer_open(&p);
	CHECK(!transfer_start(p.session, &spec, &err));
	CHECK_INT(err.code, ERR_INPUT);
	memset(longest, '/', PATH_LENGTH);
	spec.path = longest;
	CHECK(!transfer_start(p.session, &spec, &err));
	CHECK_INT(err.code, ERR_INPUT);
	peer_check_alive(&p);
	peer_release(&p);
}

/* Faults without end, as fast as they are taken. */
static struct flood {
	uint8_t records[PAYLOAD_MAX + 64];
	size_t record; /* bytes of one */
	uint64_t sent;
} flood;

static void say_faults(void)
{
	peer_say(&p, MSG_DATA, stream_of(1, PART_STDOUT),
		bytes_of(flood.records + flood.sent % flood.record, PAYLOAD_MAX));
	flood.sent += PAYLOAD_MAX;
}

static void answer_walk(struct peer *peer, const struct frame *f)
{
	static const struct tree_entry top = { .type = TREE_DIRECTORY, .mode = 0755 };
	uint8_t entry[256];
	struct writer w = writer_of(entry, sizeof(entry));

	if (f->type == MSG_CREDIT)
		say_faults();
	if (f->type != MSG_GET)
		return;
	SAY(peer, STARTED, started, stream_of(1, PART_CONTROL), .pid = 0);
	put_tree_entry(&w, &top);
	peer_say(
		peer, MSG_DATA, stream_of(1, PART_STDOUT), bytes_of(entry, (size_t)(w.at - entry)));
	say_faults();
}

static bool pass_by(void *self, const struct tree_item *untrusted)
{
	(void)untrusted;
	++*(uint64_t *)self;
	return true;
}

TEST_WITHIN(faults_of_a_walk_are_bounded, 120)
{
	struct writer w = writer_of(flood.records, sizeof(flood.records));
	uint64_t items = 0;

	while ((size_t)(w.end - w.at) >= 16) {
		put_tree_fault(&w, &(struct tree_fault){ .error = 5 });
		flood.record = flood.record ? flood.record : (size_t)(w.at - flood.records);
	}
	peer_open(&p);
	p.answer = answer_walk;
	CHECK(!session_walk(p.session, "/etc", false, pass_by, &items, clock_in(100000), &err));
	CHECK_INT(err.code, ERR_LIMIT);
	CHECK(strstr(err.text, "too many files to compare"));
	CHECK_INT(items, 1 + TREE_ENTRIES_MAX);
	peer_release(&p);
}
