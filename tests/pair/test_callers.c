/* SPDX-License-Identifier: Apache-2.0 */
/* Callers by hand, who say what no session says, to a switchboard with a real agent. */
#include "board.h"
#include "keeper/caller.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include "frame.h"

/* A caller by hand, in the same loop. */
struct raw {
	struct source source;
	uint32_t tag;
	struct inbox in;
	struct frame frame; /* the next one, while has_frame */
	bool has_frame, ended;
};

static short raw_wants(const void *self)
{
	const struct raw *r = self;

	return r->has_frame || r->ended ? 0 : POLLIN;
}

static void raw_ready(void *self, short events)
{
	struct raw *r = self;
	size_t room;
	uint8_t *at = inbox_space(&r->in, &room);
	ssize_t n = recv(r->source.fd, at, room, MSG_DONTWAIT);

	(void)events;
	if (n > 0)
		inbox_filled(&r->in, (size_t)n);
	r->ended = n == 0 || (n < 0 && errno != EAGAIN);
	r->has_frame = inbox_next(&r->in, &r->frame);
}

static void raw_close(struct raw *r)
{
	loop_remove(&loop, &r->source);
	fd_close(&r->source.fd);
}

static void raw_send(
	struct raw *r, unsigned type, uint32_t stream, unsigned flags, struct bytes body)
{
	static uint8_t frame[FRAME_MAX];
	size_t n = frame_put(frame, &(struct frame){ .type = (uint16_t)type,
					    .flags = (uint16_t)flags,
					    .stream = stream,
					    .tag = type == MSG_HELLO ? 0 : r->tag,
					    .body = body });

	CHECK(fd_write(r->source.fd, frame, n, &err));
}

static void raw_hello(struct raw *r, unsigned flags)
{
	struct msg_hello hello = { .generation = PROTOCOL_GENERATION,
		.nonce = { 1, 2, 3, 4 },
		.epoch = { 5 },
		.flags = (uint16_t)flags };
	uint8_t body[HELLO_BODY];
	struct writer w = writer_of(body, sizeof(body));

	put_hello(&w, &hello);
	r->tag = session_tag(hello.nonce);
	raw_send(r, MSG_HELLO, 0, 0, bytes_of(body, sizeof(body)));
}

static bool raw_has_news(const void *arg)
{
	const struct raw *r = arg;

	return r->has_frame || r->ended;
}

/* The next frame; NULL: the end. */
static const struct frame *raw_next(struct raw *r)
{
	static struct frame f;

	CHECK(loop_until(&loop, raw_has_news, r, clock_in(SOON), &err));
	if (!r->has_frame)
		return NULL;
	f = r->frame;
	r->has_frame = inbox_next(&r->in, &r->frame);
	return &f;
}

static void raw_expect(struct raw *r, unsigned type)
{
	const struct frame *f = raw_next(r);

	CHECK(f);
	CHECK_INT(f->type, type);
}

static void raw_expect_end(struct raw *r)
{
	while (raw_next(r))
		continue;
	raw_close(r);
}

static struct raw *raw_caller(void)
{
	static struct raw r;

	r = (struct raw){ 0 };
	r.source = (struct source){
		.fd = connect_caller(), .wants = raw_wants, .ready = raw_ready, .self = &r
	};
	loop_add(&loop, &r.source);
	raw_hello(&r, 0);
	raw_expect(&r, MSG_HELLO);
	return &r;
}

static uint32_t grace_ms; /* of what is run next */

static size_t exec_body(uint8_t *out, size_t size, unsigned flags, const char *script)
{
	struct msg_exec m = { .flags = (uint16_t)flags,
		.grace_ms = grace_ms,
		.user = bytes_str(""),
		.dir = bytes_str(""),
		.argc = 3,
		.argv = { bytes_str("/bin/sh"), bytes_str("-c"), bytes_str(script) } };
	struct writer w = writer_of(out, size);

	put_exec(&w, &m);
	CHECK(!w.bad);
	return (size_t)(w.at - out);
}

static void raw_exec(struct raw *r, uint32_t id, unsigned flags, const char *script)
{
	uint8_t body[512];

	raw_send(r, MSG_EXEC, stream_of(id, PART_CONTROL), 0,
		bytes_of(body, exec_body(body, sizeof(body), flags, script)));
}

TEST(a_caller_who_is_killed_in_the_middle_of_a_frame)
{
	uint8_t body[512], frame[600];
	size_t len = exec_body(body, sizeof(body), 0, "echo torn");
	struct session *s;
	struct raw *r;

	start();
	s = new_caller();
	for (size_t cut = 1; cut < FRAME_OVERHEAD + len; cut += 5) {
		r = raw_caller();
		raw_exec(r, 1, 0, "exec sleep 1000");
		raw_expect(r, MSG_STARTED);
		(void)frame_put(frame, &(struct frame){ .type = MSG_EXEC,
					       .stream = stream_of(2, PART_CONTROL),
					       .tag = r->tag,
					       .body = bytes_of(body, len) });
		CHECK(fd_write(r->source.fd, frame, cut, &err));
		raw_close(r);
		CHECK(loop_until(&loop, nothing_runs, NULL, clock_in(SOON), &err));
	}
	says(s, "echo fine", "fine\n");
	session_free(s);
	stop();
}

/* Frames that no caller may say, each on a connection of its own, after an EXEC with id 5. */
static const struct {
	const char *what;
	unsigned type;
	uint32_t stream;
	unsigned flags;
	size_t len; /* of zeros, or of the text */
	const char *text;
} wrongs[] = {
	{ "PREPARE", MSG_PREPARE, 0, 0, 4, NULL },
	{ "HEAL", MSG_HEAL, 0, 0, 12, NULL },
	{ "POWEROFF", MSG_POWEROFF, 0, 0, 0, NULL },
	{ "REBOOT", MSG_REBOOT, 0, 0, 0, NULL },
	{ "QUERY", MSG_QUERY, 5 << 2 | 3, 0, 8, NULL },
	{ "STARTED", MSG_STARTED, 5 << 2 | 3, 0, 4, NULL },
	{ "EXIT", MSG_EXIT, 5 << 2 | 3, 0, 4, NULL },
	{ "PONG", MSG_PONG, 0, 0, 26, NULL },
	{ "an EXEC that is none", MSG_EXEC, 6 << 2 | 3, 0, 7, NULL },
	{ "a GET that is none", MSG_GET, 6 << 2 | 3, 0, 3, NULL },
	{ "a PUT that is none", MSG_PUT, 6 << 2 | 3, 0, 6, NULL },
	{ "an id again", MSG_GET, 5 << 2 | 3, 0, 8, "\0\0\0\0\0\2/a" },
	{ "a lower id", MSG_GET, 4 << 2 | 3, 0, 8, "\0\0\0\0\0\2/a" },
	{ "id 0", MSG_GET, 3, 0, 8, "\0\0\0\0\0\2/a" },
	{ "an opener on an output", MSG_GET, 6 << 2 | 1, 0, 8, "\0\0\0\0\0\2/a" },
	{ "flags of an opener", MSG_GET, 6 << 2 | 3, 1, 8, "\0\0\0\0\0\2/a" },
	{ "DATA on an output", MSG_DATA, 5 << 2 | 1, 0, 1, NULL },
	{ "DATA with more flags", MSG_DATA, 5 << 2, 3, 1, NULL },
	{ "CREDIT on an input", MSG_CREDIT, 5 << 2, 0, 4, "\0\0\0\1" },
	{ "CREDIT for what was not sent", MSG_CREDIT, 5 << 2 | 1, 0, 4, "\0\0\0\1" },
	{ "CREDIT of nothing", MSG_CREDIT, 5 << 2 | 1, 0, 4, NULL },
	{ "a CANCEL with a body", MSG_CANCEL, 5 << 2 | 3, 0, 1, NULL },
	{ "a CANCEL of what never was", MSG_CANCEL, 9 << 2 | 3, 0, 0, NULL },
	{ "an ACK too early", MSG_ACK, 5 << 2 | 3, 0, 0, NULL },
	{ "no signal", MSG_SIGNAL, 5 << 2 | 3, 0, 2, NULL },
	{ "a RESIZE cut short", MSG_RESIZE, 5 << 2 | 3, 0, 3, NULL },
	{ "a PING cut short", MSG_PING, 0, 0, 7, NULL },
	{ "a PING on a stream", MSG_PING, 5 << 2 | 3, 0, 8, NULL },
};

TEST_WITHIN(a_caller_who_breaks_the_rules_is_disconnected, 60)
{
	static const uint8_t zeros[32];
	struct session *s;
	struct raw *r;

	start();
	s = new_caller();
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(*wrongs); i++) {
		const void *body = wrongs[i].text ? (const void *)wrongs[i].text : zeros;

		printf("# %s\n", wrongs[i].what);
		r = raw_caller();
		raw_exec(r, 5, EXEC_STDIN, "exec sleep 1000");
		raw_expect(r, MSG_STARTED);
		raw_send(r, wrongs[i].type, wrongs[i].stream, wrongs[i].flags,
			bytes_of(body, wrongs[i].len));
		raw_expect_end(r);
		CHECK(loop_until(&loop, nothing_runs, NULL, clock_in(SOON), &err));
	}
	r = raw_caller();
	raw_hello(r, HELLO_HELD);
	raw_expect_end(r);
	says(s, "echo fine", "fine\n");
	session_free(s);
	stop();
}

TEST(more_input_than_there_was_credit_for)
{
	static const uint8_t much[PAYLOAD_MAX];
	struct session *s;
	struct raw *r;

	start();
	s = new_caller();
	r = raw_caller();
	raw_exec(r, 1, EXEC_STDIN, "exec sleep 1000");
	raw_expect(r, MSG_STARTED);
	for (int i = 0; i < STREAM_WINDOW / PAYLOAD_MAX; i++) {
		raw_send(r, MSG_DATA, stream_of(1, PART_STDIN), 0, bytes_of(much, PAYLOAD_MAX));
		says(s, "echo fine", "fine\n");
	}
	raw_send(r, MSG_PING, 0, 0, bytes_of(much, 8));
	raw_expect(r, MSG_PONG);
	raw_send(r, MSG_DATA, stream_of(1, PART_STDIN), 0, bytes_of(much, PAYLOAD_MAX));
	raw_send(r, MSG_DATA, stream_of(1, PART_STDIN), 0, bytes_of(much, PAYLOAD_MAX));
	raw_expect_end(r);
	says(s, "echo fine", "fine\n");
	session_free(s);
	stop();
}

TEST(pings_without_number_are_answered_in_their_order)
{
	uint8_t body[8] = { 0 };
	struct session *s;
	struct raw *r;

	start();
	s = new_caller();
	r = raw_caller();
	for (uint8_t i = 0; i < 200; i++) {
		body[7] = i;
		raw_send(r, MSG_PING, 0, 0, bytes_of(body, sizeof(body)));
	}
	for (uint8_t i = 0; i < 200; i++) {
		const struct frame *f = raw_next(r);

		CHECK(f);
		CHECK_INT(f->type, MSG_PONG);
		CHECK_INT(f->body.data[7], i);
	}
	CHECK(session_ping(s, clock_in(SOON), NULL, &err));
	raw_close(r);
	session_free(s);
	stop();
}

/* The next HELLO is answered when the guest has answered all PINGs of the one before. */
TEST(a_greeting_is_good_for_no_more_pings)
{
	const uint8_t body[8] = { 0 };
	const struct frame *f;
	struct raw *r;

	start();
	r = raw_caller();
	CHECK_INT(kill(agent, SIGSTOP), 0);
	for (int i = 0; i < PINGS_MAX; i++)
		raw_send(r, MSG_PING, 0, 0, bytes_of(body, sizeof(body)));
	CHECK(loop_pause(&loop, 100, &err));
	raw_hello(r, 0);
	CHECK(loop_pause(&loop, 300, &err));
	CHECK(!raw_has_news(r));
	CHECK_INT(kill(agent, SIGCONT), 0);
	do {
		f = raw_next(r);
		CHECK(f);
	} while (f->type == MSG_PONG);
	CHECK_STR(message_name(f->type), "HELLO");
	raw_send(r, MSG_PING, 0, 0, bytes_of(body, sizeof(body)));
	raw_expect(r, MSG_PONG);
	raw_close(r);
	stop();
}

/* Bytes that wait for callers. */
static size_t waiting(void)
{
	size_t n = 0;

	for (int i = 0; i < CALLERS_MAX; i++)
		for (unsigned l = 0; board->callers[i] && l < board->callers[i]->n_legs; l++)
			for (int o = 0; o < 2; o++)
				n += board->callers[i]->legs[l]->output[o].waits.len;
	return n;
}

/* 16 operations that say as much as they can: what waits is a window of each. */
TEST(a_caller_who_reads_nothing_costs_no_more_than_windows)
{
	struct session *s;
	struct raw *r;
	size_t most = 0;

	start();
	s = new_caller();
	r = raw_caller();
	for (uint32_t id = 1; id < LEGS_MAX; id++)
		raw_exec(r, id, 0, "exec cat /dev/zero");
	for (int i = 0; i < 20; i++) {
		says(s, "head -c 300000 /dev/zero | wc -c", "300000\n");
		most = waiting() > most ? waiting() : most;
	}
	CHECK(most > STREAM_WINDOW);
	CHECK(most <= (size_t)LEGS_MAX * STREAM_WINDOW);
	raw_close(r);
	CHECK(loop_until(&loop, nothing_runs, NULL, clock_in(SOON), &err));
	session_free(s);
	stop();
}

TEST(more_operations_than_there_can_be)
{
	struct session *s;
	struct raw *r;

	start();
	s = new_caller();
	r = raw_caller();
	for (uint32_t id = 1; id <= LEGS_MAX + 1; id++)
		raw_exec(r, id, 0, "exec sleep 1000");
	raw_expect_end(r);
	CHECK(loop_until(&loop, nothing_runs, NULL, clock_in(SOON), &err));
	session_free(s);
	stop();
}

/* His command is counted until it has ended, which he can't put off for ever. */
TEST_WITHIN(a_grace_without_end_ends_in_ten_seconds, 60)
{
	struct session *s;
	struct raw *r;

	start();
	s = new_caller();
	r = raw_caller();
	grace_ms = UINT32_MAX;
	raw_exec(r, 1, 0, "trap '' TERM; echo; while :; do sleep 1; done");
	raw_expect(r, MSG_STARTED);
	raw_expect(r, MSG_DATA);
	raw_close(r);
	CHECK(!loop_until(&loop, nothing_runs, NULL, clock_in(2000), &err));
	CHECK_INT(err.code, ERR_TIME);
	CHECK(loop_until(&loop, nothing_runs, NULL, clock_in(30000), &err));
	session_free(s);
	stop();
}
