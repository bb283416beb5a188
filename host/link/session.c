/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a session: its channel, bytes in and out, and the end. */
#include "session.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "internal.h"

void session_break(struct session *s, const char *fmt, ...)
{
	va_list ap;

	if (s->broken[0])
		return;
	va_start(ap, fmt);
	(void)vsnprintf(s->broken, sizeof(s->broken), fmt, ap);
	va_end(ap);
	operations_lose(s, s->broken);
	outbox_clear(&s->out);
	inbox_clear(&s->in);
	fd_close(&s->source.fd);
}

/* The channel is of no more use: the end, or a rest. */
static void __attribute__((format(printf, 2, 3)))
end_channel(struct session *s, const char *fmt, ...)
{
	char why[sizeof(s->broken) - 32];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	if (!s->keep) {
		session_break(s, "%s", why);
		return;
	}
	(void)snprintf(s->detached, sizeof(s->detached), "%s: attach it again", why);
	session_hush(s);
	inbox_clear(&s->in);
	fd_close(&s->source.fd);
}

static void take_frames(struct session *s)
{
	struct frame f;

	while (!s->broken[0] && inbox_next(&s->in, &f)) {
		const char *fault;

		if (f.type == MSG_HELLO) {
			greeting_take(s, f.body);
			continue;
		}
		if (s->phase == GREETING || f.tag != s->tag)
			continue;
		fault = judge_frame(s, &f);
		if (fault)
			session_break(s, "the guest broke the protocol: %s: %s",
				message_name(f.type), fault);
	}
}

static void receive(struct session *s)
{
	size_t room;
	uint8_t *at = inbox_space(&s->in, &room);
	ssize_t n = recv(s->source.fd, at, room, MSG_DONTWAIT);

	if (n > 0) {
		inbox_filled(&s->in, (size_t)n);
		take_frames(s);
	} else if (n == 0 || errno == ECONNRESET) {
		end_channel(s, "%s",
			s->keep ? "the channel was closed"
				: "QEMU closed the channel: the machine is gone");
	} else if (errno != EAGAIN && errno != EINTR) {
		end_channel(s, "the channel can't be read: %s", strerror(errno));
	}
}

void session_flush(struct session *s)
{
	struct bytes next;

	session_pump(s);
	while (next = outbox_peek(&s->out), next.len) {
		ssize_t n = send(s->source.fd, next.data, next.len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		/* A closed socket is told by receive, which first takes what still waits. */
		if (n < 0 && errno != EAGAIN && errno != EPIPE && errno != ECONNRESET)
			end_channel(s, "the channel can't be written: %s", strerror(errno));
		if (n < 0)
			return;
		outbox_wrote(&s->out, (size_t)n);
		session_pump(s);
	}
}

static short session_wants(const void *self)
{
	const struct session *s = self;

	if (s->source.fd < 0)
		return 0;
	return outbox_peek(&s->out).len ? POLLIN | POLLOUT : POLLIN;
}

static int64_t session_due(const void *self)
{
	const struct session *s = self;

	return s->phase == GREETING && s->source.fd >= 0 ? s->greet_at : CLOCK_NEVER;
}

static void session_ready(void *self, short events)
{
	struct session *s = self;

	if (events & ~POLLOUT)
		receive(s);
	if (session_due(s) <= clock_ms())
		session_greet(s);
	if (s->source.fd >= 0)
		session_flush(s);
	inputs_call(s);
}

struct session *session_new(struct loop *loop, int fd)
{
	struct session *s = xcalloc(1, sizeof(*s));

	s->loop = loop;
	s->phase = GREETING;
	s->greet_at = clock_ms();
	s->next_id = 1;
	random_fill(s->epoch, sizeof(s->epoch));
	s->source = (struct source){
		.fd = fd,
		.wants = session_wants,
		.due = session_due,
		.ready = session_ready,
		.self = s,
	};
	loop_add(loop, &s->source);
	return s;
}

void session_keep(struct session *s)
{
	s->keep = true;
}

void session_detach(struct session *s)
{
	if (session_is_attached(s))
		end_channel(s, "the channel was given back");
}

bool session_is_attached(const struct session *s)
{
	return s->source.fd >= 0;
}

/* Greets before it reads: the last nonce is known to stale bytes. */
void session_attach(struct session *s, int fd)
{
	assert(s->keep && "only a channel that was kept is attached again");
	session_detach(s);
	if (s->broken[0]) {
		fd_close(&fd);
		return;
	}
	s->source.fd = fd;
	s->detached[0] = 0;
	session_greet(s);
}

void session_free(struct session *s)
{
	if (!s)
		return;
	session_break(s, "the session was ended");
	loop_remove(s->loop, &s->source);
	free(s);
}

static bool open_or_broken(const void *arg)
{
	const struct session *s = arg;

	return s->broken[0] || session_is_open(s);
}

bool session_wait_open(struct session *s, int64_t deadline, struct err *err)
{
	if (!loop_until(s->loop, open_or_broken, s, deadline, err)) {
		if (err->code == ERR_TIME && s->detached[0])
			err_set(err, ERR_TIME, "%s", s->detached);
		else if (err->code == ERR_TIME)
			err_set(err, ERR_TIME,
				"the guest's agent did not answer in time: see the console log "
				"for how far the guest came");
		return false;
	}
	return session_usable(s, err);
}

bool session_usable(const struct session *s, struct err *err)
{
	if (s->broken[0])
		return err_set(err, ERR_PEER, "%s", s->broken);
	if (s->detached[0])
		return err_set(err, ERR_PEER, "%s", s->detached);
	if (s->phase == GREETING)
		return err_set(
			err, ERR_PEER, "the guest is starting anew: wait until it has answered");
	return true;
}

bool session_is_open(const struct session *s)
{
	return s->phase != GREETING && !s->broken[0];
}

const char *session_broken(const struct session *s)
{
	return s->broken[0] ? s->broken : NULL;
}

unsigned session_greetings(const struct session *s)
{
	return s->greetings;
}

unsigned session_operations(const struct session *s)
{
	return s->n_operations;
}

bool session_is_frozen(const struct session *s)
{
	return session_is_open(s) && s->phase == FROZEN;
}

void session_boot_id(const struct session *s, uint8_t ret_id[16])
{
	memcpy(ret_id, s->boot_id, sizeof(s->boot_id));
}
