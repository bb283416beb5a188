/* SPDX-License-Identifier: Apache-2.0 */
/* A guest by hand: the other end of a session's socket, in the same loop. */
#ifndef PEER_H
#define PEER_H

#include "test.h"

#include <poll.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/loop.h"
#include "link/session.h"
#include "outbox.h"

#define SOON 10000 /* ms: far more than anything here takes */

struct peer {
	struct loop loop;
	struct session *session;
	struct source source;
	struct inbox in;
	struct msg_hello asked; /* in the last HELLO that came */
	uint16_t flags;		/* of the answers to it */
	uint32_t tag;

	struct frame frame; /* the next one, while has_frame */
	bool has_frame;
	void (*answer)(struct peer *p, const struct frame *f); /* instead of keeping it */
};

static inline short peer_wants(const void *self)
{
	const struct peer *p = self;

	return p->has_frame ? 0 : POLLIN;
}

static inline void peer_next(struct peer *p)
{
	while (!p->has_frame && inbox_next(&p->in, &p->frame)) {
		if (p->answer)
			p->answer(p, &p->frame);
		else
			p->has_frame = true;
	}
}

static inline void peer_ready(void *self, short events)
{
	struct peer *p = self;
	size_t room;
	uint8_t *at = inbox_space(&p->in, &room);
	ssize_t n = read(p->source.fd, at, room);

	(void)events;
	if (n > 0)
		inbox_filled(&p->in, (size_t)n);
	else
		loop_remove(&p->loop, &p->source);
	peer_next(p);
}

static inline void peer_write(struct peer *p, const void *data, size_t len)
{
	struct err err;

	CHECK(fd_write(p->source.fd, data, len, &err));
}

static inline void peer_say_as(struct peer *p, uint32_t tag, unsigned type, uint32_t stream,
	unsigned flags, const void *body, size_t len)
{
	uint8_t header[FRAME_HEADER];

	frame_put_header(header, &(struct frame){ .type = (uint16_t)type,
					 .flags = (uint16_t)flags,
					 .stream = stream,
					 .tag = tag,
					 .body = bytes_of(body, len) });
	peer_write(p, header, sizeof(header));
	peer_write(p, body, len);
	peer_write(p, (const uint8_t[]){ FRAME_END }, 1);
}

static inline void peer_say(struct peer *p, unsigned type, uint32_t stream, struct bytes body)
{
	peer_say_as(p, p->tag, type, stream, 0, body.data, body.len);
}

/* Says one message: SAY(p, EXIT, exit, stream, .value = 1). */
#define SAY(p, CODE, codec, stream, ...)                                                           \
	do {                                                                                       \
		uint8_t body_[1024];                                                               \
		struct writer w_ = writer_of(body_, sizeof(body_));                                \
		put_##codec(&w_, &(struct msg_##codec){ __VA_ARGS__ });                            \
		CHECK(!w_.bad);                                                                    \
		peer_say(p, MSG_##CODE, stream, bytes_of(body_, (size_t)(w_.at - body_)));         \
	} while (0)

static inline void peer_say_hello(struct peer *p, const struct msg_hello *m)
{
	uint8_t body[HELLO_BODY];
	struct writer w = writer_of(body, sizeof(body));

	put_hello(&w, m);
	peer_say_as(p, 0, MSG_HELLO, 0, 0, body, sizeof(body));
}

static inline bool peer_all_taken(const void *arg)
{
	int left = 0;

	CHECK(ioctl(((const struct peer *)arg)->source.fd, SIOCOUTQ, &left) == 0);
	return left == 0;
}

/* A socket holds less than a window: the session must take what was said before more is. */
static inline void peer_wait_taken(struct peer *p)
{
	struct err err;

	CHECK(loop_until(&p->loop, peer_all_taken, p, clock_in(SOON), &err));
}

static inline bool peer_has_frame(const void *arg)
{
	return ((const struct peer *)arg)->has_frame;
}

/* Waits for the next frame, which must be of this type. Its body is valid until the loop turns. */
static inline struct frame expect(struct peer *p, unsigned type)
{
	struct err err;

	peer_next(p);
	CHECK(loop_until(&p->loop, peer_has_frame, p, clock_in(SOON), &err));
	p->has_frame = false;
	CHECK_STR(message_name(p->frame.type), message_name(type));
	return p->frame;
}

static inline void expect_hello(struct peer *p)
{
	CHECK(get_hello(expect(p, MSG_HELLO).body, &p->asked));
	p->tag = session_tag(p->asked.nonce);
}

static inline void answer_hello(struct peer *p)
{
	struct msg_hello m = p->asked;

	memset(m.boot_id, 0xb0, sizeof(m.boot_id));
	m.flags = p->flags;
	peer_say_hello(p, &m);
}

static inline void wait_open(struct peer *p)
{
	struct err err;

	CHECK(session_wait_open(p->session, clock_in(SOON), &err));
}

static inline bool peer_session_broken(const void *arg)
{
	return session_broken(((const struct peer *)arg)->session);
}

/* Waits for the end of the session, whose reason must hold this text. */
static inline void expect_broken(struct peer *p, const char *part)
{
	struct err err;

	CHECK(loop_until(&p->loop, peer_session_broken, p, clock_in(SOON), &err));
	if (!strstr(session_broken(p->session), part))
		CHECK_STR(session_broken(p->session), part);
}

/* Returns bytes, owned, with headers of a HELLO in it, of which one lies across
 * two chunks. */
static inline uint8_t *make_input(size_t len)
{
	const struct frame hello = { .type = MSG_HELLO, .body = { NULL, HELLO_BODY } };
	uint8_t *data = malloc(len);

	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	frame_put_header(data + 100, &hello);
	frame_put_header(data + 100 + FRAME_HEADER, &hello);
	frame_put_header(data + BULK_CHUNK - 5, &hello);
	return data;
}

/* A guest that answers a PING has taken, and was taken at its word for, all before. */
static inline void answer_ping(struct peer *p, const struct frame *f)
{
	struct msg_ping m;

	if (f->type != MSG_PING)
		return;
	CHECK(get_ping(f->body, &m));
	SAY(p, PONG, pong, 0, .token = m.token, .cpu = 250, .memory = PRESSURE_UNKNOWN,
		.operations = 3);
}

static inline void peer_check_alive(struct peer *p)
{
	struct err err;

	p->answer = answer_ping;
	CHECK(session_ping(p->session, clock_in(SOON), NULL, &err));
	p->answer = NULL;
}

/* A fresh pair of sockets. Returns the session's end. */
static inline int peer_connect(struct peer *p)
{
	struct err err;
	int ours, theirs;

	CHECK(fd_pair(&ours, &theirs, &err));
	inbox_clear(&p->in);
	p->has_frame = false;
	p->source = (struct source){
		.fd = theirs,
		.wants = peer_wants,
		.ready = peer_ready,
		.self = p,
	};
	loop_add(&p->loop, &p->source);
	return ours;
}

static inline void peer_close(struct peer *p)
{
	loop_remove(&p->loop, &p->source);
	fd_close(&p->source.fd);
}

static inline bool peer_session_detached(const void *arg)
{
	return !session_is_attached(((const struct peer *)arg)->session);
}

/* The channel ends, and the session sees it. */
static inline void peer_hang_up(struct peer *p)
{
	struct err err;

	peer_close(p);
	CHECK(loop_until(&p->loop, peer_session_detached, p, clock_in(SOON), &err));
}

/* A new channel, to a guest that answers with these flags. */
static inline void peer_attach(struct peer *p, uint16_t flags)
{
	p->flags = flags;
	session_attach(p->session, peer_connect(p));
	expect_hello(p);
	answer_hello(p);
	wait_open(p);
}

static inline void peer_init(struct peer *p)
{
	struct err err;

	memset(p, 0, sizeof(*p));
	CHECK(loop_init(&p->loop, false, &err));
	p->session = session_new(&p->loop, peer_connect(p));
}

static inline void peer_open(struct peer *p)
{
	peer_init(p);
	expect_hello(p);
	answer_hello(p);
	wait_open(p);
}

static inline void peer_open_kept(struct peer *p)
{
	peer_open(p);
	session_keep(p->session);
}

static inline uint32_t control_of(uint32_t id)
{
	return stream_of(id, PART_CONTROL);
}

/* A command whose EXEC has come. Returns its id. */
static inline uint32_t peer_begin(
	struct peer *p, const struct command_spec *spec, struct command **ret_command)
{
	struct err err;

	*ret_command = command_start(p->session, spec, &err);
	CHECK(*ret_command);
	return stream_id(expect(p, MSG_EXEC).stream);
}

/* The same, and the session has heard that it runs. */
static inline uint32_t peer_run(
	struct peer *p, const struct command_spec *spec, struct command **ret_command)
{
	uint32_t id = peer_begin(p, spec, ret_command);

	SAY(p, STARTED, started, control_of(id), .pid = 7);
	peer_wait_taken(p);
	return id;
}

/* Says that many bytes of output, in frames of a quarter window. */
static inline void peer_say_output(struct peer *p, uint32_t id, enum stream_part part, size_t len)
{
	static const uint8_t zeros[STREAM_WINDOW / 4];

	while (len) {
		size_t n = len < sizeof(zeros) ? len : sizeof(zeros);

		peer_say(p, MSG_DATA, stream_of(id, part), bytes_of(zeros, n));
		peer_wait_taken(p);
		len -= n;
	}
}

static inline void peer_release(struct peer *p)
{
	session_free(p->session);
	fd_close(&p->source.fd);
	loop_release(&p->loop);
}

#endif
