/* SPDX-License-Identifier: Apache-2.0 */
/* Output at the reader's pace. */
#include "outlet.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"

#define TURN_WRITES 32 /* pieces written before others get their turn */

static void give_up(struct outlet *o, int error)
{
	size_t left = o->pending.len - o->written;

	o->error = error;
	o->written = o->pending.len = 0;
	command_consumed(*o->command, o->part, left);
}

static bool writable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };

	return poll(&pfd, 1, 0) > 0;
}

/* False: no more for now. */
static bool write_piece(struct outlet *o)
{
	size_t len = o->pending.len - o->written;
	ssize_t n;

	if (!len || !writable(o->source.fd))
		return false;
	n = write(o->source.fd, o->pending.data + o->written, len < PIPE_BUF ? len : PIPE_BUF);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n < 0) {
		give_up(o, errno);
		return false;
	}
	o->written += (size_t)n;
	if (o->written == o->pending.len)
		o->written = o->pending.len = 0;
	command_consumed(*o->command, o->part, (size_t)n);
	return true;
}

static short wants(const void *self)
{
	return outlet_is_empty(self) ? 0 : POLLOUT;
}

static void ready(void *self, short events)
{
	(void)events;
	for (int i = 0; i < TURN_WRITES && write_piece(self); i++)
		;
}

/* A terminal says that it is ready when it takes a single byte, and a write would wait for the
 * rest: for ever, when nobody reads its other end. */
static int open_own(int fd)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void outlet_init(struct outlet *o, struct loop *loop, int fd, struct command **command,
	enum stream_part part, bool as_is)
{
	bool terminal = isatty(fd);

	*o = (struct outlet){ .loop = loop, .command = command, .part = part };
	o->own = terminal ? open_own(fd) : -1;
	o->tame = terminal && !as_is;
	o->source = (struct source){
		.fd = o->own >= 0 ? o->own : fd, .wants = wants, .ready = ready, .self = o
	};
	loop_add(loop, &o->source);
}

void outlet_release(struct outlet *o)
{
	if (!o->loop)
		return;
	loop_remove(o->loop, &o->source);
	fd_close(&o->own);
	buf_release(&o->pending);
}

size_t outlet_take(struct outlet *o, const uint8_t *untrusted_data, size_t len)
{
	size_t had = o->pending.len;

	if (o->error)
		return len;
	/* Bounded: the session never gives more than the credit that we have not yet returned. */
	buf_add(&o->pending, untrusted_data, len);
	if (o->tame)
		text_tame(&o->taming, o->pending.data + had, len);
	if (len)
		o->before = untrusted_data[len - 1];
	return 0;
}

bool outlet_is_empty(const struct outlet *o)
{
	return o->written == o->pending.len;
}
