/* SPDX-License-Identifier: Apache-2.0 */
/* Our standard input on its way to a command of the guest, at the command's pace. */
#include "feed.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/xalloc.h"

#define PIPE_ROOM     65536
#define TERMINAL_ROOM 1048576 /* a large paste */

#define ESCAPE_KEY     0x1d /* Ctrl-] */
#define ESCAPE_PRESSES 3
#define ESCAPE_MS      1000

static bool command_takes(const struct feed *f)
{
	return *f->command && command_result(*f->command)->end == COMMAND_RUNS;
}

void feed_push(struct feed *f)
{
	size_t n;

	if (!f->loop || f->told || !command_takes(f))
		return;
	n = f->len ? command_input(*f->command, f->pending, f->len) : 0;
	memmove(f->pending, f->pending + n, f->len - n);
	f->len -= n;
	if (f->ended && !f->len) {
		f->told = true;
		command_input_end(*f->command);
	}
}

/* The keys reach the guest as well: who presses them less often means the guest. */
static void look_for_escape(struct feed *f, const uint8_t *keys, size_t len)
{
	int64_t now = clock_ms();

	for (size_t i = 0; i < len; i++) {
		if (keys[i] != ESCAPE_KEY) {
			f->presses = 0;
			continue;
		}
		if (!f->presses || now - f->first_press > ESCAPE_MS) {
			f->presses = 0;
			f->first_press = now;
		}
		if (++f->presses == ESCAPE_PRESSES)
			f->escaped = true;
	}
}

static short wants(const void *self)
{
	const struct feed *f = self;

	return !f->ended && f->len < f->room && command_takes(f) ? POLLIN : 0;
}

static void ready(void *self, short events)
{
	struct feed *f = self;
	ssize_t n = read(f->source.fd, f->pending + f->len, f->room - f->len);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0)
		f->error = errno;
	else if (n == 0 && f->terminal)
		f->error = EIO; /* a raw terminal has no other end than a hang-up */
	f->ended = n <= 0;
	if (n > 0 && f->terminal)
		look_for_escape(f, f->pending + f->len, (size_t)n);
	if (n > 0)
		f->len += (size_t)n;
	feed_push(f);
}

void feed_init(struct feed *f, struct loop *loop, int fd, struct command **command, bool terminal)
{
	*f = (struct feed){ .loop = loop, .command = command, .terminal = terminal };
	f->room = terminal ? TERMINAL_ROOM : PIPE_ROOM;
	f->pending = xcalloc(1, f->room);
	f->source = (struct source){ .fd = fd, .wants = wants, .ready = ready, .self = f };
	loop_add(loop, &f->source);
}

void feed_release(struct feed *f)
{
	if (f->loop)
		loop_remove(f->loop, &f->source);
	free(f->pending);
	*f = (struct feed){ 0 };
}
