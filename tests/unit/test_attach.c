/* SPDX-License-Identifier: Apache-2.0 */
/* A channel that ends and is attached again, with operations in every state. */
#include "peer.h"

static struct peer p;
static struct err err;

static const char *const argv_cat[] = { "cat", "-", NULL };
static const struct command_spec spec_cat = { .argv = argv_cat };

static struct msg_query expect_query(uint32_t id)
{
	struct frame f = expect(&p, MSG_QUERY);
	struct msg_query m;

	CHECK_INT(f.stream, control_of(id));
	CHECK(get_query(f.body, &m));
	return m;
}

static void expect_about(unsigned type, uint32_t id)
{
	CHECK_INT(expect(&p, type).stream, control_of(id));
}

/* One that waits for its turn: nothing starts while the guest owes the answer to PREPARE. */
static struct command *start_unsent(void)
{
	struct command *c;

	CHECK(!session_prepare(p.session, 700, clock_in(30), &err));
	expect(&p, MSG_PREPARE);
	c = command_start(p.session, &spec_cat, &err);
	CHECK(c);
	return c;
}

static void check_lost(const struct command *c, const char *part)
{
	CHECK_INT(command_result(c)->end, COMMAND_LOST);
	CHECK(strstr(command_result(c)->text, part));
}

TEST(a_command_outlives_its_channel)
{
	struct msg_hello first;
	struct msg_query query;
	struct command *c;
	uint32_t id;

	peer_open_kept(&p);
	first = p.asked;
	id = peer_run(&p, &spec_cat, &c);
	peer_say(&p, MSG_DATA, stream_of(id, PART_STDOUT), bytes_str("before"));
	peer_hang_up(&p);
	CHECK(!session_broken(p.session));
	CHECK(!session_is_open(p.session));
	CHECK_INT(command_result(c)->end, COMMAND_RUNS);
	peer_attach(&p, HELLO_HELD);
	CHECK_MEM(p.asked.epoch, first.epoch, 16);
	CHECK(memcmp(p.asked.nonce, first.nonce, 16) != 0);
	CHECK_INT(first.flags, 0);
	CHECK_INT(p.asked.flags, HELLO_HELD);
	query = expect_query(id);
	CHECK_INT(query.stdout_credit, STREAM_WINDOW);
	CHECK_INT(query.stderr_credit, STREAM_WINDOW);
	SAY(&p, STATUS, status, control_of(id), .state = STATUS_RUNS, .stdout_bytes = 6);
	peer_say(&p, MSG_DATA, stream_of(id, PART_STDOUT), bytes_str("after"));
	SAY(&p, EXIT, exit, control_of(id), .value = 3, .stdout_bytes = 11);
	expect_about(MSG_ACK, id);
	CHECK_INT(command_result(c)->end, COMMAND_EXITED);
	CHECK_INT(command_result(c)->value, 3);
	CHECK_INT(command_result(c)->stdout_bytes, 11);
	CHECK_INT(command_result(c)->output_lost, 0);
	CHECK_INT(session_greetings(p.session), 2);
	command_free(c);
	peer_release(&p);
}

/* What was said about a command whose EXEC never came got lost with it. */
TEST(a_command_that_starts_over_is_cancelled_and_resized_again)
{
	struct command_spec spec = { .argv = argv_cat, .pty = true, .rows = 24, .columns = 80 };
	struct msg_resize size;
	struct command *c;
	uint32_t id;

	peer_open_kept(&p);
	id = peer_begin(&p, &spec, &c);
	command_resize(c, 30, 90);
	expect_about(MSG_RESIZE, id);
	command_cancel(c);
	expect_about(MSG_CANCEL, id);
	peer_hang_up(&p);
	peer_attach(&p, HELLO_HELD);
	(void)expect_query(id);
	SAY(&p, STATUS, status, control_of(id), .state = STATUS_UNKNOWN);
	expect_about(MSG_EXEC, id);
	expect_about(MSG_CANCEL, id);
	CHECK(get_resize(expect(&p, MSG_RESIZE).body, &size));
	CHECK_INT(size.rows, 30);
	CHECK_INT(size.columns, 90);
	command_free(c);
	peer_release(&p);
}

TEST(without_a_channel_nothing_begins)
{
	static const char why[] = "the channel was closed: attach it again";

	peer_open_kept(&p);
	peer_hang_up(&p);
	CHECK(!command_start(p.session, &spec_cat, &err));
	CHECK_INT(err.code, ERR_PEER);
	CHECK_STR(err.text, why);
	CHECK(!session_ping(p.session, clock_in(SOON), NULL, &err));
	CHECK(strstr(err.text, why));
	CHECK(!session_put(p.session, "/a", 0644, "x", 1, clock_in(SOON), &err));
	CHECK(!session_reboot(p.session, &err));
	CHECK(!session_wait_open(p.session, clock_in(10), &err));
	CHECK_INT(err.code, ERR_TIME);
	CHECK_STR(err.text, why);
	session_detach(p.session);
	peer_attach(&p, 0);
	peer_check_alive(&p);
	session_detach(p.session);
	CHECK(!session_is_attached(p.session));
	peer_close(&p);
	peer_release(&p);
}

TEST(a_request_ends_with_its_channel)
{
	struct command *c;

	peer_open_kept(&p);
	c = start_unsent();
	peer_hang_up(&p);
	CHECK(!session_heal(p.session, clock_in(SOON), &err));
	peer_attach(&p, HELLO_HELD);
	/* The PREPARE is forgotten: the command starts. */
	expect(&p, MSG_EXEC);
	command_free(c);
	peer_release(&p);
}

TEST(an_exec_that_never_came_is_sent_again_before_later_ones)
{
	struct command *c, *later;
	uint32_t id;

	peer_open_kept(&p);
	id = peer_begin(&p, &spec_cat, &c);
	later = start_unsent();
	peer_hang_up(&p);
	peer_attach(&p, HELLO_HELD);
	expect_query(id);
	peer_check_alive(&p);
	CHECK(!p.has_frame);
	SAY(&p, STATUS, status, control_of(id), .state = STATUS_UNKNOWN);
	expect_about(MSG_EXEC, id);
	expect_about(MSG_EXEC, id + 1);
	SAY(&p, STARTED, started, control_of(id), .pid = 7);
	peer_say(&p, MSG_DATA, stream_of(id, PART_STDERR), bytes_str("x"));
	peer_check_alive(&p);
	command_free(later);
	command_free(c);
	peer_release(&p);
}

TEST(a_guest_without_memory_lost_what_was_sent)
{
	struct command *sent, *running, *unsent;

	peer_open_kept(&p);
	peer_begin(&p, &spec_cat, &sent);
	peer_run(&p, &spec_cat, &running);
	unsent = start_unsent();
	peer_hang_up(&p);
	peer_attach(&p, 0);
	check_lost(sent, "outcome is unknown");
	check_lost(running, "outcome is unknown");
	CHECK_INT(command_result(unsent)->end, COMMAND_RUNS);
	expect_about(MSG_EXEC, 3);
	command_free(sent);
	command_free(running);
	command_free(unsent);
	peer_release(&p);
}

TEST(another_boot_has_no_memory_whatever_it_says)
{
	struct msg_hello m;
	struct command *c;

	peer_open_kept(&p);
	peer_begin(&p, &spec_cat, &c);
	peer_hang_up(&p);
	session_attach(p.session, peer_connect(&p));
	expect_hello(&p);
	m = p.asked;
	m.flags = HELLO_HELD;
	memset(m.boot_id, 0xb1, sizeof(m.boot_id));
	peer_say_hello(&p, &m);
	wait_open(&p);
	check_lost(c, "outcome is unknown");
	command_free(c);
	peer_release(&p);
}

TEST(a_started_command_that_is_unknown_is_lost)
{
	struct command *c;
	uint32_t id;

	peer_open_kept(&p);
	id = peer_run(&p, &spec_cat, &c);
	peer_hang_up(&p);
	peer_attach(&p, HELLO_HELD);
	expect_query(id);
	SAY(&p, STATUS, status, control_of(id), .state = STATUS_UNKNOWN);
	peer_check_alive(&p);
	check_lost(c, "knows it no more");
	command_free(c);
	peer_release(&p);
}

TEST(an_ended_command_tells_its_end_after_its_status)
{
	struct command *c;
	uint32_t id;

	peer_open_kept(&p);
	id = peer_begin(&p, &spec_cat, &c);
	peer_hang_up(&p);
	peer_attach(&p, HELLO_HELD);
	expect_query(id);
	SAY(&p, STATUS, status, control_of(id), .state = STATUS_ENDED, .stderr_bytes = 9);
	SAY(&p, EXIT, exit, control_of(id), .value = 1, .stderr_bytes = 9);
	expect_about(MSG_ACK, id);
	CHECK_INT(command_result(c)->end, COMMAND_EXITED);
	CHECK_INT(command_result(c)->output_lost, 9);
	CHECK_INT(command_result(c)->stderr_bytes, 0);
	command_free(c);
	peer_release(&p);
}

/* A guest that could not say STARTED before may say it on either side of STATUS, once. */
TEST(started_may_come_late)
{
	struct command *before, *after, *failed;

	peer_open_kept(&p);
	peer_begin(&p, &spec_cat, &before);
	peer_begin(&p, &spec_cat, &after);
	peer_begin(&p, &spec_cat, &failed);
	peer_hang_up(&p);
	peer_attach(&p, HELLO_HELD);
	for (uint32_t id = 1; id <= 3; id++)
		expect_query(id);
	SAY(&p, STARTED, started, control_of(1), .pid = 7);
	SAY(&p, CREDIT, credit, stream_of(1, PART_STDIN), .bytes = 5);
	SAY(&p, FAILED, failed, control_of(3), .kind = FAIL_NOT_FOUND);
	SAY(&p, STATUS, status, control_of(1), .state = STATUS_RUNS);
	SAY(&p, STATUS, status, control_of(2), .state = STATUS_RUNS);
	SAY(&p, STATUS, status, control_of(3), .state = STATUS_UNKNOWN);
	SAY(&p, STARTED, started, control_of(2), .pid = 8);
	peer_check_alive(&p);
	CHECK_INT(command_result(failed)->end, COMMAND_FAILED);
	SAY(&p, STARTED, started, control_of(2), .pid = 8);
	expect_broken(&p, "STARTED: for what had started");
	command_free(before);
	command_free(after);
	command_free(failed);
	peer_release(&p);
}

TEST(what_may_have_got_lost_is_said_again)
{
	struct command_spec spec = spec_cat;
	struct command *c, *ended;
	uint32_t id, done;

	spec.pty = true;
	peer_open_kept(&p);
	done = peer_run(&p, &spec_cat, &ended);
	SAY(&p, EXIT, exit, control_of(done), .value = 0);
	expect_about(MSG_ACK, done);
	id = peer_run(&p, &spec, &c);
	command_cancel(c);
	expect_about(MSG_CANCEL, id);
	command_resize(c, 5, 6);
	expect_about(MSG_RESIZE, id);
	command_signal(c, 10);
	expect_about(MSG_SIGNAL, id);
	for (int i = 0; i < 2; i++) {
		peer_hang_up(&p);
		peer_attach(&p, HELLO_HELD);
		expect_about(MSG_ACK, done);
		expect_query(id);
		SAY(&p, STATUS, status, control_of(id), .state = STATUS_RUNS);
		expect_about(MSG_CANCEL, id);
		expect_about(MSG_RESIZE, id);
		peer_check_alive(&p);
		CHECK(!p.has_frame);
	}
	command_free(c);
	command_free(ended);
	peer_release(&p);
}

TEST(commands_are_freed_without_a_channel)
{
	struct command *sent, *running, *lost;

	peer_open_kept(&p);
	peer_begin(&p, &spec_cat, &sent);
	peer_run(&p, &spec_cat, &running);
	peer_run(&p, &spec_cat, &lost);
	peer_hang_up(&p);
	command_free(sent);
	command_free(running);
	command_free(lost);
	peer_attach(&p, HELLO_HELD);
	for (uint32_t id = 1; id <= 3; id++)
		expect_query(id);
	SAY(&p, STATUS, status, control_of(1), .state = STATUS_UNKNOWN);
	SAY(&p, STATUS, status, control_of(2), .state = STATUS_RUNS);
	SAY(&p, STATUS, status, control_of(3), .state = STATUS_UNKNOWN);
	expect_about(MSG_CANCEL, 2);
	SAY(&p, EXIT, exit, control_of(2), .flags = EXIT_CANCELLED);
	expect_about(MSG_ACK, 2);
	peer_check_alive(&p);
	peer_release(&p);
}

TEST(a_transfer_is_lost_with_its_channel)
{
	static struct command *c;

	peer_open_kept(&p);
	CHECK(!session_put(p.session, "/a", 0644, "x", 1, clock_in(30), &err));
	CHECK_INT(err.code, ERR_TIME);
	expect(&p, MSG_PUT);
	peer_hang_up(&p);
	peer_attach(&p, HELLO_HELD);
	/* Were it done in the meantime, this frees its place. */
	expect_about(MSG_ACK, 1);
	peer_run(&p, &spec_cat, &c);
	command_free(c);
	peer_release(&p);
}

TEST(a_frozen_guest_is_asked_after_it_was_healed)
{
	struct command *c;
	uint32_t id;

	peer_open_kept(&p);
	id = peer_run(&p, &spec_cat, &c);
	CHECK(!session_is_frozen(p.session));
	peer_hang_up(&p);
	peer_attach(&p, HELLO_HELD | HELLO_FROZEN);
	CHECK(session_is_frozen(p.session));
	CHECK(!command_start(p.session, &spec_cat, &err));
	CHECK_STR(err.text, "the guest is frozen: heal it first");
	peer_check_alive(&p);
	CHECK(!session_heal(p.session, clock_in(30), &err));
	CHECK_INT(err.code, ERR_TIME);
	expect(&p, MSG_HEAL);
	SAY(&p, HEALED, healed, 0, .error = 0);
	expect_query(id);
	CHECK(!session_is_frozen(p.session));
	command_free(c);
	peer_release(&p);
}

TEST(stale_words_of_the_old_channel_are_dropped)
{
	struct msg_hello old;
	struct command *c;
	uint32_t id, tag;

	peer_open_kept(&p);
	old = p.asked;
	tag = p.tag;
	id = peer_run(&p, &spec_cat, &c);
	peer_hang_up(&p);
	session_attach(p.session, peer_connect(&p));
	peer_say_hello(&p, &old);
	peer_say_as(&p, tag, MSG_DATA, stream_of(id, PART_STDOUT), 0, "stale", 5);
	expect_hello(&p);
	peer_say_as(&p, tag, MSG_DATA, stream_of(id, PART_STDOUT), 0, "stale", 5);
	p.flags = HELLO_HELD;
	answer_hello(&p);
	wait_open(&p);
	peer_say_as(&p, tag, MSG_DATA, stream_of(id, PART_STDOUT), 0, "stale", 5);
	expect_query(id);
	SAY(&p, STATUS, status, control_of(id), .state = STATUS_RUNS);
	peer_check_alive(&p);
	CHECK_INT(command_result(c)->end, COMMAND_RUNS);
	command_free(c);
	peer_release(&p);
}

TEST(an_unasked_hello_takes_the_epoch_with_it)
{
	struct msg_hello first;
	struct command *c;

	peer_open_kept(&p);
	first = p.asked;
	peer_run(&p, &spec_cat, &c);
	peer_say_hello(&p, &(struct msg_hello){ .generation = PROTOCOL_GENERATION });
	expect_hello(&p);
	CHECK(memcmp(p.asked.epoch, first.epoch, 16) != 0);
	CHECK_INT(p.asked.flags, 0);
	check_lost(c, "started anew");
	first = p.asked;
	peer_say_hello(&p, &(struct msg_hello){ .generation = PROTOCOL_GENERATION });
	expect_hello(&p);
	CHECK_MEM(p.asked.epoch, first.epoch, 16);
	command_free(c);
	peer_release(&p);
}

TEST(a_broken_session_stays_broken)
{
	peer_open_kept(&p);
	peer_say(&p, MSG_EXEC, 7, bytes_of(NULL, 0));
	expect_broken(&p, "not legal now");
	peer_close(&p);
	session_detach(p.session);
	session_attach(p.session, peer_connect(&p));
	CHECK(!session_is_attached(p.session));
	CHECK(session_broken(p.session));
	peer_release(&p);
}

static bool detach_now;

static size_t detach(void *self, enum stream_part part, const uint8_t *data, size_t len)
{
	struct command **c = self;

	(void)part;
	(void)data;
	if (detach_now)
		session_detach(p.session);
	command_free(*c);
	*c = NULL;
	return len;
}

TEST(output_may_end_its_own_channel)
{
	static struct command *c;
	struct command_spec spec = spec_cat;

	for (int i = 0; i < 2; i++) {
		spec.output = detach;
		spec.self = &c;
		detach_now = true;
		peer_open(&p);
		if (i)
			session_keep(p.session);
		peer_say(&p, MSG_DATA, stream_of(peer_run(&p, &spec, &c), PART_STDOUT),
			bytes_str("x"));
		CHECK(loop_until(&p.loop, peer_session_detached, &p, clock_in(SOON), &err));
		CHECK(!c);
		CHECK_INT(!session_broken(p.session), i);
		peer_close(&p);
		peer_release(&p);
	}
}
