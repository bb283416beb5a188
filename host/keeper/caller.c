/* SPDX-License-Identifier: Apache-2.0 */
/* One caller: his connection, and the greetings. */
#include "caller.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "crc32.h"

static bool guest_is_there(const struct caller *c)
{
	return c->board->session && session_is_open(c->board->session);
}

/* Has the guest started anew since it answered him? Of one that broke the protocol or is gone for
 * good nothing is said here: that is told by the end of the connection. */
static bool guest_changed(const struct caller *c)
{
	const struct session *s = c->board->session;

	return c->phase == OPEN && s && !session_broken(s) &&
	       (!session_is_open(s) || c->greetings != session_greetings(s));
}

/* Does the guest still work at PINGs of his? Else each HELLO would be good for more of them. */
static bool is_owed_pongs(const struct caller *c)
{
	return c->last_ping > c->board->last_pong &&
	       c->ping_greetings == session_greetings(c->board->session);
}

static bool can_answer(const struct caller *c)
{
	return c->asks && guest_is_there(c) && !is_owed_pongs(c);
}

static void drop_all(struct caller *c)
{
	while (c->n_legs)
		leg_free(c->legs[c->n_legs - 1]);
	c->n_pings = 0;
	c->held_back = false;
	c->phase = GREETING;
	outbox_clear(&c->out);
}

/* A HELLO, before all else that is to be said. */
static void say_hello(struct caller *c, const struct msg_hello *hello)
{
	uint8_t body[HELLO_BODY];
	struct writer w = writer_of(body, sizeof(body));

	put_hello(&w, hello);
	outbox_clear(&c->out);
	(void)outbox_control(&c->out,
		&(struct frame){ .type = MSG_HELLO, .body = bytes_of(body, sizeof(body)) });
}

static struct msg_hello our_hello(void)
{
	return (struct msg_hello){ .generation = PROTOCOL_GENERATION,
		.build = crc32_of(VERSION, strlen(VERSION)) };
}

void caller_start_anew(struct caller *c)
{
	const struct msg_hello unasked = our_hello();

	if (c->phase != OPEN)
		return;
	drop_all(c);
	c->asks = false;
	say_hello(c, &unasked);
}

static void answer(struct caller *c)
{
	struct msg_hello hello = our_hello();

	if (!can_answer(c))
		return;
	memcpy(hello.nonce, c->nonce, sizeof(hello.nonce));
	memcpy(hello.epoch, c->epoch, sizeof(hello.epoch));
	session_boot_id(c->board->session, hello.boot_id);
	say_hello(c, &hello);
	c->asks = false;
	c->phase = OPEN;
	c->greetings = session_greetings(c->board->session);
}

/* A HELLO that can't be read is a torn one. False: one that he may not say. */
static bool take_hello(struct caller *c, struct bytes untrusted_body)
{
	static const uint8_t none[16];
	struct msg_hello hello;

	if (!get_hello(untrusted_body, &hello))
		return true;
	if (hello.flags || !memcmp(hello.nonce, none, sizeof(none)))
		return false;
	drop_all(c);
	memcpy(c->nonce, hello.nonce, sizeof(c->nonce));
	memcpy(c->epoch, hello.epoch, sizeof(c->epoch));
	c->tag = session_tag(c->nonce);
	c->last_id = 0;
	c->asks = true;
	answer(c);
	return true;
}

static void take_frames(struct caller *c)
{
	struct frame f;

	while (!c->over && c->n_pings < PINGS_MAX && inbox_next(&c->in, &f)) {
		if (f.type == MSG_HELLO)
			c->over = !take_hello(c, f.body);
		else if (c->phase == OPEN && f.tag == c->tag)
			c->over = caller_judge(c, &f) != NULL;
	}
	c->held_back = c->n_pings == PINGS_MAX;
}

static void receive(struct caller *c)
{
	size_t room;
	uint8_t *at = inbox_space(&c->in, &room);
	ssize_t n = recv(c->source.fd, at, room, MSG_DONTWAIT);

	if (n > 0)
		inbox_filled(&c->in, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		c->over = true;
}

/* Is there a PING that the guest can be asked now? */
static bool can_ping(const struct caller *c)
{
	return c->n_pings && !c->pings[c->n_pings - 1].sent && guest_is_there(c) &&
	       relay_can_ping(c->board->session);
}

static void send_pings(struct caller *c)
{
	for (unsigned i = 0; i < c->n_pings && can_ping(c); i++) {
		struct ping *p = &c->pings[i];

		if (p->sent)
			continue;
		p->sent = true;
		p->guest_token = relay_ping(c->board->session);
		c->last_ping = p->guest_token;
		c->ping_greetings = session_greetings(c->board->session);
	}
}

void caller_flush(struct caller *c)
{
	struct bytes next;

	caller_pump(c);
	while (!c->over && (next = outbox_peek(&c->out), next.len)) {
		ssize_t n = send(c->source.fd, next.data, next.len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			c->over = true;
			return;
		}
		outbox_wrote(&c->out, (size_t)n);
		caller_pump(c);
	}
}

static short caller_wants(const void *self)
{
	const struct caller *c = self;

	return (short)((c->held_back ? POLLRDHUP : POLLIN) |
		       (outbox_peek(&c->out).len ? POLLOUT : 0));
}

static int64_t caller_due(const void *self)
{
	const struct caller *c = self;
	bool now = c->over || guest_changed(c) || can_answer(c) || can_ping(c) ||
		   (c->held_back && c->n_pings < PINGS_MAX);

	return now ? clock_ms() : CLOCK_NEVER;
}

static void caller_ready(void *self, short events)
{
	struct caller *c = self;

	if (guest_changed(c))
		caller_start_anew(c);
	if (c->held_back && events & (POLLRDHUP | POLLHUP | POLLERR))
		c->over = true;
	else if (!c->held_back && events & ~POLLOUT)
		receive(c);
	take_frames(c);
	answer(c);
	send_pings(c);
	caller_flush(c);
	if (c->over)
		caller_free(c);
}

struct caller *caller_new(struct switchboard *b, int fd)
{
	struct caller *c = xcalloc(1, sizeof(*c));

	c->board = b;
	c->phase = GREETING;
	c->source = (struct source){
		.fd = fd, .wants = caller_wants, .due = caller_due, .ready = caller_ready, .self = c
	};
	loop_add(b->loop, &c->source);
	return c;
}

void caller_free(struct caller *c)
{
	if (!c)
		return;
	for (int i = 0; i < CALLERS_MAX; i++)
		if (c->board->callers[i] == c)
			c->board->callers[i] = NULL;
	drop_all(c);
	loop_remove(c->board->loop, &c->source);
	fd_close(&c->source.fd);
	free(c);
}
