/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes from one socket to the other, until the wire is cut. */
#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/xalloc.h"
#include "messages.h"

void wire_cut(struct wire *w)
{
	fd_close(&w->host.fd);
	fd_close(&w->guest.fd);
	w->to_guest.len = w->to_host.len = 0;
}

bool wire_is_cut(const struct wire *w)
{
	return w->guest.fd < 0;
}

bool wire_is_through(const struct wire *w)
{
	int unread = 0;

	return w->host.fd < 0 ||
	       (ioctl(w->host.fd, FIONREAD, &unread) == 0 && !unread && !w->to_guest.len);
}

static void listen_to(struct wire *w, const uint8_t *data, size_t len)
{
	struct frame f;

	while (len) {
		size_t room, n;
		uint8_t *space = inbox_space(&w->sent, &room);

		n = len < room ? len : room;
		memcpy(space, data, n);
		inbox_filled(&w->sent, n);
		data += n;
		len -= n;
		while (inbox_next(&w->sent, &f)) {
			w->frames++;
			w->hellos += f.type == MSG_HELLO;
			w->tag = f.tag ? f.tag : w->tag;
		}
	}
}

static void take(struct wire *w, int fd, struct wire_queue *q)
{
	ssize_t n = recv(fd, q->data, sizeof(q->data), MSG_DONTWAIT);

	if (n > 0) {
		q->at = 0;
		q->len = (size_t)n;
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		wire_cut(w);
	}
}

static void give(struct wire *w, int fd, struct wire_queue *q)
{
	size_t len = q->len < w->left ? q->len : (size_t)w->left;
	ssize_t n = send(fd, q->data + q->at, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		wire_cut(w);
	if (n <= 0)
		return;
	if (q == &w->to_guest)
		listen_to(w, q->data + q->at, (size_t)n);
	q->at += (size_t)n;
	q->len -= (size_t)n;
	if (w->left == WIRE_UNCUT)
		return;
	w->left -= (uint64_t)n;
	if (!w->left)
		wire_cut(w);
}

static short host_wants(const void *self)
{
	const struct wire *w = self;

	return (short)((w->to_guest.len ? 0 : POLLIN) | (w->to_host.len ? POLLOUT : 0));
}

static short guest_wants(const void *self)
{
	const struct wire *w = self;

	return (short)((w->to_host.len || w->stalled ? 0 : POLLIN) |
		       (w->to_guest.len ? POLLOUT : 0));
}

static void host_ready(void *self, short events)
{
	struct wire *w = self;

	if (events & POLLOUT && w->to_host.len)
		give(w, w->host.fd, &w->to_host);
	if (events & ~POLLOUT && !w->to_guest.len && w->host.fd >= 0)
		take(w, w->host.fd, &w->to_guest);
}

static void guest_ready(void *self, short events)
{
	struct wire *w = self;

	if (events & POLLOUT && w->to_guest.len)
		give(w, w->guest.fd, &w->to_guest);
	if (events & ~POLLOUT && !w->to_host.len && !w->stalled && w->guest.fd >= 0)
		take(w, w->guest.fd, &w->to_host);
}

struct wire *wire_new(struct loop *loop, int guest)
{
	struct wire *w = xcalloc(1, sizeof(*w));

	w->loop = loop;
	w->left = WIRE_UNCUT;
	w->host = (struct source){ .fd = -1, .wants = host_wants, .ready = host_ready, .self = w };
	w->guest = (struct source){
		.fd = guest, .wants = guest_wants, .ready = guest_ready, .self = w
	};
	loop_add(loop, &w->host);
	loop_add(loop, &w->guest);
	return w;
}

void wire_free(struct wire *w)
{
	if (!w)
		return;
	wire_cut(w);
	loop_remove(w->loop, &w->host);
	loop_remove(w->loop, &w->guest);
	free(w);
}

int wire_end(struct wire *w)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -1;
	fd_close(&w->host.fd);
	w->host.fd = pair[0];
	return pair[1];
}
