/* SPDX-License-Identifier: Apache-2.0 */
/* Every message in every state of a session and its operation; and a HELLO at every byte. */
#include "peer.h"

#include "base/buf.h"
#include "frame.h"
#include "link/relay.h"

static struct peer p;
static struct err err;

static const char *const argv_cat[] = { "cat", "-", NULL };

/* Where operation 1 stands when a message about it comes. */
enum stage {
	GREETED, /* the session has not opened */
	NONE,	 /* nothing was ever started */
	EXEC_SENT,
	RUNNING,
	ASKED_FOR, /* QUERY is out */
	PUT_SENT,
	ENDED,
	FROZEN_UP, /* of a running command */
	STAGES,
};

static struct command *command;

static void run(void)
{
	const struct command_spec spec = { .argv = argv_cat, .stream_input = true };

	command = command_start(p.session, &spec, &err);
	CHECK_INT(command_input(command, "x", 1), 1);
	expect(&p, MSG_EXEC);
	expect(&p, MSG_DATA);
}

static void say_started(void)
{
	SAY(&p, STARTED, started, stream_of(1, PART_CONTROL), .pid = 7);
	peer_check_alive(&p);
}

static void answer_prepare(struct peer *peer, const struct frame *f)
{
	if (f->type == MSG_PREPARE)
		SAY(peer, PREPARED, prepared, 0, .error = 0);
}

static void bring_to(enum stage stage)
{
	command = NULL;
	if (stage == GREETED) {
		peer_init(&p);
		expect_hello(&p);
		return;
	}
	peer_open(&p);
	session_keep(p.session);
	if (stage == NONE)
		return;
	if (stage == PUT_SENT) {
		CHECK(!session_put(p.session, "/a", 0644, "x", 1, clock_in(20), &err));
		expect(&p, MSG_PUT);
		expect(&p, MSG_DATA);
		expect(&p, MSG_CANCEL);
		return;
	}
	run();
	if (stage == EXEC_SENT)
		return;
	say_started();
	if (stage == ASKED_FOR) {
		peer_hang_up(&p);
		peer_attach(&p, HELLO_HELD);
		expect(&p, MSG_QUERY);
	} else if (stage == ENDED) {
		SAY(&p, EXIT, exit, stream_of(1, PART_CONTROL), .value = 0);
		expect(&p, MSG_ACK);
	} else if (stage == FROZEN_UP) {
		p.answer = answer_prepare;
		CHECK(session_prepare(p.session, 700, clock_in(SOON), &err));
		p.answer = NULL;
	}
}

static void say_message(unsigned type)
{
	const uint32_t control = stream_of(1, PART_CONTROL);

	switch (type) {
	case MSG_STARTED:
		SAY(&p, STARTED, started, control, .pid = 7);
		break;
	case MSG_FAILED:
		SAY(&p, FAILED, failed, control, .kind = FAIL_NOT_FOUND);
		break;
	case MSG_DATA:
		peer_say(&p, MSG_DATA, stream_of(1, PART_STDOUT), bytes_str("x"));
		break;
	case MSG_CREDIT:
		SAY(&p, CREDIT, credit, stream_of(1, PART_STDIN), .bytes = 1);
		break;
	case MSG_EXIT:
		SAY(&p, EXIT, exit, control, .value = 0);
		break;
	case MSG_DONE:
		SAY(&p, DONE, done, control, .bytes = 0);
		break;
	case MSG_STATUS:
		SAY(&p, STATUS, status, control, .state = STATUS_RUNS);
		break;
	case MSG_PREPARED:
		SAY(&p, PREPARED, prepared, 0, .error = 0);
		break;
	case MSG_HEALED:
		SAY(&p, HEALED, healed, 0, .error = 0);
		break;
	case MSG_PONG:
		SAY(&p, PONG, pong, 0, .token = 0);
		break;
	default:
		peer_say(&p, type, 0, bytes_of(NULL, 0));
		break;
	}
}

#define BIT(stage) (1u << (stage))

/* In which stages the guest may say it. Late words about what ended are nobody's fault; before the
 * session opens all is stale. */
static const unsigned may[MSG_GET + 1] = {
	[MSG_STARTED] = BIT(EXEC_SENT) | BIT(PUT_SENT) | BIT(ENDED),
	[MSG_FAILED] = BIT(EXEC_SENT) | BIT(PUT_SENT) | BIT(ENDED),
	[MSG_DATA] = BIT(RUNNING) | BIT(ENDED),
	[MSG_CREDIT] = BIT(EXEC_SENT) | BIT(RUNNING) | BIT(ASKED_FOR) | BIT(PUT_SENT) | BIT(ENDED),
	[MSG_EXIT] = BIT(RUNNING) | BIT(ENDED),
	[MSG_DONE] = BIT(ENDED),
	[MSG_STATUS] = BIT(ASKED_FOR) | BIT(ENDED),
};

TEST(every_message_is_judged_in_every_stage)
{
	for (unsigned stage = 0; stage < STAGES; stage++)
		for (unsigned type = MSG_HELLO + 1; type <= MSG_GET; type++) {
			bring_to((enum stage)stage);
			say_message(type);
			if (stage == GREETED) {
				answer_hello(&p);
				wait_open(&p);
			} else if (may[type] & BIT(stage)) {
				peer_check_alive(&p);
			} else {
				expect_broken(&p, message_name(type));
			}
			command_free(command);
			peer_release(&p);
		}
}

/* A frame of the session that is cut off, then a HELLO. */
static void check_torn(uint8_t *torn, size_t len, bool unasked)
{
	struct msg_hello m;

	peer_open(&p);
	run();
	say_started();
	frame_put_header(torn, &(struct frame){ .type = MSG_DATA,
				       .stream = stream_of(1, PART_STDOUT),
				       .tag = p.tag,
				       .body = { NULL, 100 } });
	peer_write(&p, torn, len);
	if (unasked) {
		peer_say_hello(&p, &(struct msg_hello){ .generation = PROTOCOL_GENERATION });
		expect_hello(&p);
		answer_hello(&p);
		wait_open(&p);
		CHECK_INT(command_result(command)->end, COMMAND_LOST);
	} else {
		m = p.asked;
		m.nonce[0] ^= 1;
		peer_say_hello(&p, &m);
		peer_check_alive(&p);
		CHECK_INT(session_greetings(p.session), 1);
		CHECK_INT(command_result(command)->end, COMMAND_RUNS);
	}
	command_free(command);
	peer_release(&p);
}

TEST(a_hello_is_found_in_half_a_frame_at_every_byte)
{
	static uint8_t torn[FRAME_HEADER + 100];

	for (size_t len = 0; len < sizeof(torn); len++) {
		check_torn(torn, len, true);
		check_torn(torn, len, false);
	}
}

/* Cut at every byte itself, it is found whole the next time. */
TEST(a_torn_hello_hides_no_whole_one)
{
	uint8_t frame[FRAME_OVERHEAD + HELLO_BODY];
	struct msg_hello m;

	for (size_t cut = 0; cut < sizeof(frame); cut++) {
		struct writer w = writer_of(frame + FRAME_HEADER, HELLO_BODY);

		peer_init(&p);
		expect_hello(&p);
		m = p.asked;
		put_hello(&w, &m);
		(void)frame_put(
			frame, &(struct frame){ .type = MSG_HELLO, .body = { NULL, HELLO_BODY } });
		peer_write(&p, frame, cut);
		peer_write(&p, frame, sizeof(frame));
		wait_open(&p);
		peer_release(&p);
	}
}

/* A snapshot holds an answer that was under way; the machine that it becomes has another epoch. */
TEST(an_answer_from_before_a_restore_is_no_answer)
{
	struct msg_hello before;

	peer_open(&p);
	before = p.asked;
	peer_release(&p);
	peer_init(&p);
	before.flags = HELLO_HELD | HELLO_FROZEN;
	peer_say_hello(&p, &before);
	expect_hello(&p);
	CHECK(memcmp(before.epoch, p.asked.epoch, 16) != 0);
	peer_say_hello(&p, &before);
	memcpy(before.nonce, p.asked.nonce, 16);
	peer_say_hello(&p, &before);
	CHECK(!session_wait_open(p.session, clock_in(50), &err));
	answer_hello(&p);
	wait_open(&p);
	CHECK(!session_is_frozen(p.session));
	peer_release(&p);
}

TEST(a_clone_opens_frozen_and_heals)
{
	peer_init(&p);
	expect_hello(&p);
	p.flags = HELLO_FROZEN;
	answer_hello(&p);
	wait_open(&p);
	CHECK(session_is_open(p.session));
	CHECK(session_is_frozen(p.session));
	CHECK(!command_start(p.session, &(struct command_spec){ .argv = argv_cat }, &err));
	CHECK_STR(err.text, "the guest is frozen: heal it first");
	peer_release(&p);
}

static bool healed, asked;

/* It must be healed before it is asked for a tree. */
static void answer_frozen(struct peer *peer, const struct frame *f)
{
	if (f->type == MSG_HEAL) {
		healed = true;
		SAY(peer, HEALED, healed, 0, .error = 0);
	} else if (f->type == MSG_GET) {
		CHECK(healed);
		asked = true;
	}
	answer_ping(peer, f);
}

static void nobody(void *self, const struct frame *f)
{
	(void)self;
	(void)f;
}

TEST(what_is_relayed_to_a_frozen_guest_begins_after_the_heal)
{
	const struct msg_get get = { .path = bytes_str("/a") };
	uint8_t body[16];
	struct writer w = writer_of(body, sizeof(body));
	struct command *c;

	bring_to(FROZEN_UP);
	put_get(&w, &get);
	c = relay_start(
		p.session, MSG_GET, bytes_of(body, (size_t)(w.at - body)), nobody, NULL, &err);
	CHECK(c);
	p.answer = answer_frozen;
	CHECK(session_ping(p.session, clock_in(SOON), NULL, &err));
	CHECK(!asked);
	CHECK(session_heal(p.session, clock_in(SOON), &err));
	CHECK(session_ping(p.session, clock_in(SOON), NULL, &err));
	CHECK(asked);
	p.answer = NULL;
	command_free(c);
	command_free(command);
	peer_release(&p);
}

TEST(health_is_checked_not_believed)
{
	static const struct msg_pong wrong[] = {
		{ .token = 1, .cpu = 10001 },
		{ .token = 1, .memory = 0xfffe },
		{ .token = 1, .io = 20000 },
		{ .token = 1, .operations = OPERATIONS_MAX + 1 },
	};
	struct guest_health h;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		uint8_t body[sizeof(wrong[0])];
		struct writer w = writer_of(body, sizeof(body));

		peer_open(&p);
		CHECK(!session_ping(p.session, clock_in(20), NULL, &err));
		put_pong(&w, &wrong[i]);
		peer_say(&p, MSG_PONG, 0, bytes_of(body, (size_t)(w.at - body)));
		expect_broken(&p, "PONG: a malformed body");
		peer_release(&p);
	}
	peer_open(&p);
	p.answer = answer_ping;
	CHECK(session_ping(p.session, clock_in(SOON), &h, &err));
	CHECK(h.cpu > 0.0249 && h.cpu < 0.0251);
	CHECK(h.memory < 0);
	CHECK(h.io >= 0 && h.io <= 0);
	CHECK_INT(h.operations, 3);
	CHECK(session_reboot(p.session, &err));
	p.answer = NULL;
	expect(&p, MSG_REBOOT);
	peer_release(&p);
}
