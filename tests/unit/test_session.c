/* SPDX-License-Identifier: Apache-2.0 */
/* A session from greeting to end, and the requests about the guest as a whole. */
#include "peer.h"

#include <errno.h>

static struct peer p;
static struct err err;

static const char *const argv_true[] = { "true", NULL };
static const struct command_spec spec_true = { .argv = argv_true };

/* Starts `true` and lets it run. Returns its id. */
static uint32_t run_true(struct command **ret_command)
{
	uint32_t id;

	*ret_command = command_start(p.session, &spec_true, &err);
	CHECK(*ret_command);
	id = stream_id(expect(&p, MSG_EXEC).stream);
	SAY(&p, STARTED, started, stream_of(id, PART_CONTROL), .pid = 7);
	return id;
}

static bool ended(const void *arg)
{
	return command_result(arg)->end != COMMAND_RUNS;
}

static enum command_end wait_end(const struct command *c)
{
	CHECK(loop_until(&p.loop, ended, c, clock_in(SOON), &err));
	return command_result(c)->end;
}

TEST(opens_when_the_nonce_comes_back)
{
	uint8_t boot_id[16], want[16];

	peer_init(&p);
	CHECK(!session_is_open(p.session));
	CHECK(!command_start(p.session, &spec_true, &err));
	CHECK_INT(err.code, ERR_PEER);
	expect_hello(&p);
	CHECK_INT(p.asked.generation, PROTOCOL_GENERATION);
	answer_hello(&p);
	wait_open(&p);
	CHECK(session_is_open(p.session));
	CHECK_INT(session_greetings(p.session), 1);
	session_boot_id(p.session, boot_id);
	memset(want, 0xb0, sizeof(want));
	CHECK_MEM(boot_id, want, sizeof(want));
	peer_release(&p);
}

TEST(stale_bytes_before_the_answer_are_dropped)
{
	struct msg_hello old = { .generation = PROTOCOL_GENERATION, .nonce = { 9 } };
	uint8_t junk[3000];

	memset(junk, 0x9b, sizeof(junk));
	peer_init(&p);
	peer_write(&p, junk, sizeof(junk));
	peer_say_as(&p, 0x01020304, MSG_EXIT, 7, 0, junk, 12);
	peer_say_hello(&p, &old);
	expect_hello(&p);
	answer_hello(&p);
	wait_open(&p);
	CHECK_INT(session_greetings(p.session), 1);
	peer_check_alive(&p);
	peer_release(&p);
}

TEST(another_nonce_or_epoch_is_no_answer)
{
	struct msg_hello m;

	peer_init(&p);
	expect_hello(&p);
	m = p.asked;
	m.nonce[15] ^= 1;
	m.generation++;
	peer_say_hello(&p, &m);
	m = p.asked;
	m.epoch[0] ^= 1;
	peer_say_hello(&p, &m);
	CHECK(!session_wait_open(p.session, clock_in(50), &err));
	CHECK_INT(err.code, ERR_TIME);
	answer_hello(&p);
	wait_open(&p);
	peer_release(&p);
}

TEST(greets_again_with_a_fresh_nonce)
{
	struct msg_hello first;

	peer_init(&p);
	expect_hello(&p);
	first = p.asked;
	expect_hello(&p);
	CHECK(memcmp(first.nonce, p.asked.nonce, 16) != 0);
	CHECK_MEM(first.epoch, p.asked.epoch, 16);
	answer_hello(&p);
	wait_open(&p);
	peer_release(&p);
}

TEST(a_torn_hello_is_no_fault)
{
	uint8_t frame[FRAME_OVERHEAD + HELLO_BODY];
	struct writer w = writer_of(frame + FRAME_HEADER, HELLO_BODY);

	peer_init(&p);
	expect_hello(&p);
	(void)frame_put(frame, &(struct frame){ .type = MSG_HELLO, .body = { NULL, HELLO_BODY } });
	put_hello(&w, &p.asked);
	peer_write(&p, frame, 60);
	peer_write(&p, frame, sizeof(frame));
	wait_open(&p);
	frame[FRAME_HEADER + 3] ^= 1;
	peer_write(&p, frame, sizeof(frame));
	peer_check_alive(&p);
	CHECK_INT(session_greetings(p.session), 1);
	peer_release(&p);
}

TEST(a_guest_that_starts_anew_loses_its_commands)
{
	struct command *c;

	peer_open(&p);
	run_true(&c);
	peer_say_hello(&p, &(struct msg_hello){ .generation = PROTOCOL_GENERATION });
	expect_hello(&p);
	CHECK_INT(command_result(c)->end, COMMAND_LOST);
	CHECK(strstr(command_result(c)->text, "started anew"));
	CHECK(!session_is_open(p.session));
	CHECK(!session_broken(p.session));
	answer_hello(&p);
	wait_open(&p);
	CHECK_INT(session_greetings(p.session), 2);
	command_free(c);
	run_true(&c);
	command_free(c);
	peer_release(&p);
}

TEST(another_generation_is_told_from)
{
	peer_init(&p);
	expect_hello(&p);
	p.asked.generation = 9;
	answer_hello(&p);
	CHECK(!session_wait_open(p.session, clock_in(SOON), &err));
	CHECK_INT(err.code, ERR_PEER);
	CHECK(strstr(err.text, "generation 9, this postern 2: rebuild the image"));
	peer_release(&p);
}

TEST(foreign_tags_and_unknown_types_are_skipped)
{
	peer_open(&p);
	peer_say_as(&p, p.tag ^ 1, MSG_EXIT, 4, 0, "junk", 4);
	peer_say_as(&p, p.tag, 4711, 99, 0xffff, "later", 5);
	peer_say_hello(&p, &p.asked);
	peer_check_alive(&p);
	CHECK_INT(session_greetings(p.session), 1);
	peer_release(&p);
}

TEST(what_came_before_the_end_of_file_counts)
{
	struct command *c, *other;
	uint32_t id;

	peer_open(&p);
	id = run_true(&c);
	run_true(&other);
	SAY(&p, EXIT, exit, stream_of(id, PART_CONTROL), .value = 3);
	loop_remove(&p.loop, &p.source);
	fd_close(&p.source.fd);
	expect_broken(&p, "QEMU closed the channel");
	CHECK_INT(command_result(c)->end, COMMAND_EXITED);
	CHECK_INT(command_result(c)->value, 3);
	CHECK_INT(wait_end(other), COMMAND_LOST);
	CHECK(!session_is_open(p.session));
	CHECK(!session_wait_open(p.session, clock_in(SOON), &err));
	CHECK_INT(err.code, ERR_PEER);
	CHECK(!command_start(p.session, &spec_true, &err));
	CHECK(!session_ping(p.session, clock_in(SOON), NULL, &err));
	CHECK(!session_poweroff(p.session, &err));
	command_free(c);
	command_free(other);
	peer_release(&p);
}

/* Every message of the guest with one byte too many. */
TEST(malformed_bodies_break_the_session)
{
	static const struct {
		unsigned type;
		enum stream_part part;
	} about_command[] = {
		{ MSG_STARTED, PART_CONTROL },
		{ MSG_FAILED, PART_CONTROL },
		{ MSG_EXIT, PART_CONTROL },
		{ MSG_DONE, PART_CONTROL },
		{ MSG_CREDIT, PART_STDIN },
	};
	static const unsigned about_session[] = { MSG_PREPARED, MSG_HEALED, MSG_PONG };
	static const uint8_t body[64];

	for (size_t i = 0; i < sizeof(about_command) / sizeof(*about_command); i++) {
		struct command *c;
		uint32_t id;

		peer_open(&p);
		id = run_true(&c);
		peer_say(&p, about_command[i].type, stream_of(id, about_command[i].part),
			bytes_of(body, sizeof(body)));
		expect_broken(&p, "malformed body");
		CHECK(strstr(session_broken(p.session), message_name(about_command[i].type)));
		CHECK_INT(command_result(c)->end, COMMAND_LOST);
		command_free(c);
		peer_release(&p);
	}
	for (size_t i = 0; i < sizeof(about_session) / sizeof(*about_session); i++) {
		peer_open(&p);
		peer_say(&p, about_session[i], 0, bytes_of(body, sizeof(body)));
		expect_broken(&p, "malformed body");
		peer_release(&p);
	}
}

static void check_breaks(
	unsigned type, uint32_t stream, unsigned flags, size_t len, const char *why)
{
	static const uint8_t zeros[STREAM_WINDOW];

	peer_open(&p);
	peer_say_as(&p, p.tag, type, stream, flags, zeros, len);
	expect_broken(&p, why);
	CHECK(strstr(session_broken(p.session), "the guest broke the protocol: "));
	peer_release(&p);
}

TEST(what_the_guest_may_not_say_breaks_the_session)
{
	check_breaks(MSG_EXEC, 7, 0, 4, "not legal now");
	check_breaks(MSG_POWEROFF, 0, 0, 0, "not legal now");
	check_breaks(MSG_DATA, stream_of(1, PART_STDOUT), 0, 4, "never given");
	check_breaks(MSG_DATA, stream_of(0, PART_STDOUT), 0, 4, "never given");
	check_breaks(MSG_CREDIT, stream_of(1, PART_STDIN), 0, 4, "never given");
	check_breaks(MSG_DATA, stream_of(1, PART_STDIN), 0, 4, "wrong part");
	check_breaks(MSG_EXIT, stream_of(1, PART_STDOUT), 0, 4, "wrong part");
	check_breaks(MSG_DATA, stream_of(1, PART_STDOUT), 2, 4, "unknown flags");
	check_breaks(MSG_PONG, 0, FRAME_EOF, 24, "unknown flags");
	check_breaks(MSG_PONG, 4, 0, 24, "a stream where none belongs");
	check_breaks(MSG_PONG, 0, 0, 24, "token");
	check_breaks(MSG_PREPARED, 0, 0, 8, "an answer to nothing");
	check_breaks(MSG_HEALED, 0, 0, 4, "an answer to nothing");
}

static uint32_t answer_error;

static void answer_requests(struct peer *peer, const struct frame *f)
{
	struct msg_prepare prepare;
	struct msg_heal heal;

	if (f->type == MSG_PREPARE) {
		CHECK(get_prepare(f->body, &prepare));
		CHECK_INT(prepare.deadline_ms, 700);
		SAY(peer, PREPARED, prepared, 0, .error = answer_error);
	} else if (f->type == MSG_HEAL) {
		CHECK(get_heal(f->body, &heal));
		CHECK(heal.realtime_ns && heal.seed.len >= 32);
		SAY(peer, HEALED, healed, 0, .error = answer_error);
	} else {
		answer_ping(peer, f);
	}
}

TEST(a_frozen_guest_runs_nothing_until_it_is_healed)
{
	struct command *c;

	peer_open(&p);
	p.answer = answer_requests;
	CHECK(session_prepare(p.session, 700, clock_in(SOON), &err));
	CHECK(session_is_open(p.session));
	CHECK(!command_start(p.session, &spec_true, &err));
	CHECK(strstr(err.text, "frozen"));
	CHECK(session_ping(p.session, clock_in(SOON), NULL, &err));
	CHECK(session_heal(p.session, clock_in(SOON), &err));
	p.answer = NULL;
	run_true(&c);
	command_free(c);
	peer_release(&p);
}

TEST(a_guest_that_cannot_freeze_says_why)
{
	struct command *c;

	peer_open(&p);
	p.answer = answer_requests;
	answer_error = EOPNOTSUPP;
	CHECK(!session_prepare(p.session, 700, clock_in(SOON), &err));
	CHECK_INT(err.code, ERR_PEER);
	CHECK(strstr(err.text, "not supported"));
	CHECK(!session_heal(p.session, clock_in(SOON), &err));
	CHECK_INT(err.code, ERR_PEER);
	p.answer = NULL;
	run_true(&c);
	command_free(c);
	peer_release(&p);
}

TEST(nothing_streams_while_frozen)
{
	struct command *c;
	uint32_t id;

	peer_open(&p);
	id = run_true(&c);
	p.answer = answer_requests;
	CHECK(session_prepare(p.session, 700, clock_in(SOON), &err));
	p.answer = NULL;
	peer_say(&p, MSG_DATA, stream_of(id, PART_STDOUT), bytes_of("x", 1));
	expect_broken(&p, "DATA: not legal now");
	command_free(c);
	peer_release(&p);
}

/* The guest's streams go on as soon as it was healed. */
static void answer_with_data(struct peer *peer, const struct frame *f)
{
	if (f->type == MSG_HEAL)
		peer_say(peer, MSG_DATA, stream_of(1, PART_STDOUT), bytes_of("x", 1));
	answer_requests(peer, f);
}

TEST(streams_go_on_before_healed_is_said)
{
	struct command *c;

	peer_open(&p);
	run_true(&c);
	p.answer = answer_with_data;
	CHECK(session_prepare(p.session, 700, clock_in(SOON), &err));
	CHECK(!session_prepare(p.session, 700, clock_in(SOON), &err));
	CHECK(strstr(err.text, "frozen already"));
	CHECK(session_heal(p.session, clock_in(SOON), &err));
	command_free(c);
	peer_release(&p);
}

TEST(heal_waits_for_the_answer_to_prepare)
{
	struct command *c;

	peer_open(&p);
	CHECK(!session_prepare(p.session, 700, clock_in(30), &err));
	CHECK_INT(err.code, ERR_TIME);
	/* Kept back until the guest has answered. */
	CHECK(c = command_start(p.session, &spec_true, &err));
	CHECK(!session_heal(p.session, clock_in(30), &err));
	expect(&p, MSG_PREPARE);
	SAY(&p, PREPARED, prepared, 0, .error = 0);
	p.answer = answer_requests;
	CHECK(session_heal(p.session, clock_in(SOON), &err));
	p.answer = NULL;
	peer_check_alive(&p);
	command_free(c);
	peer_release(&p);
}

/* A start anew while a request waits, instead of the answer. */
static void answer_anew(struct peer *peer, const struct frame *f)
{
	if (f->type == MSG_PING)
		peer_say_hello(peer, &(struct msg_hello){ .generation = PROTOCOL_GENERATION });
}

TEST(a_request_fails_when_the_guest_starts_anew)
{
	peer_open(&p);
	p.answer = answer_anew;
	CHECK(!session_ping(p.session, clock_in(SOON), NULL, &err));
	CHECK_INT(err.code, ERR_PEER);
	CHECK(strstr(err.text, "started anew"));
	peer_release(&p);
}

TEST(a_late_pong_is_no_fault)
{
	struct frame first;
	struct msg_ping m;

	peer_open(&p);
	CHECK(!session_ping(p.session, clock_in(30), NULL, &err));
	CHECK_INT(err.code, ERR_TIME);
	first = expect(&p, MSG_PING);
	CHECK(get_ping(first.body, &m));
	SAY(&p, PONG, pong, 0, .token = m.token);
	peer_check_alive(&p);
	peer_release(&p);
}

TEST(poweroff_is_sent_at_once)
{
	peer_open(&p);
	CHECK(session_poweroff(p.session, &err));
	CHECK_INT(expect(&p, MSG_POWEROFF).stream, 0);
	peer_release(&p);
}
