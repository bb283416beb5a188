/* SPDX-License-Identifier: Apache-2.0 */
/* What a machine says, bounded in memory and on disk. */
#include "console.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "base/xalloc.h"

static const char panic_words[] = "Kernel panic - not syncing";
static const char log_cut[] = "\n[the rest is not kept: this file holds the first 1 MiB]\n";

struct console {
	struct loop *loop;
	struct source source;
	int fd, log;
	size_t logged;

	size_t matched; /* bytes of panic_words that the text ends with */
	bool panicked;

	size_t len; /* the last of these is the newest byte */
	char text[2 * CONSOLE_KEPT];
};

static void keep(struct console *c, const char *untrusted_text, size_t len)
{
	if (c->len + len > sizeof(c->text)) {
		memmove(c->text, c->text + c->len - CONSOLE_KEPT, CONSOLE_KEPT);
		c->len = CONSOLE_KEPT;
	}
	memcpy(c->text + c->len, untrusted_text, len);
	c->len += len;
}

static void log_text(struct console *c, const char *untrusted_text, size_t len)
{
	size_t room = CONSOLE_LOGGED - c->logged;
	bool cut = len > room;
	struct err err;

	if (c->log < 0)
		return;
	len = cut ? room : len;
	c->logged += len;
	if (!fd_write(c->log, untrusted_text, len, &err) ||
		(cut && fd_write(c->log, log_cut, sizeof(log_cut) - 1, &err)) || cut)
		fd_close(&c->log);
}

static void watch_for_panic(struct console *c, const char *untrusted_text, size_t len)
{
	const size_t all = sizeof(panic_words) - 1;

	for (size_t i = 0; i < len && !c->panicked; i++) {
		if (c->matched == all) {
			/* The rest of the line says why. */
			c->panicked = untrusted_text[i] == '\n';
			continue;
		}
		/* The first letter comes once in the words, so a mismatch restarts there. */
		if (untrusted_text[i] == panic_words[c->matched])
			c->matched++;
		else
			c->matched = untrusted_text[i] == panic_words[0];
	}
}

/* The other end is closed. */
static void close_it(struct console *c)
{
	fd_close(&c->fd);
	c->source.fd = -1;
}

void console_drain(struct console *c)
{
	char chunk[CONSOLE_KEPT];
	ssize_t n;

	/* Bounded, so that a chatterbox can't hold the loop. */
	for (int turns = 0; turns < 16 && c->fd >= 0; turns++) {
		n = read(c->fd, chunk, sizeof(chunk));
		if (n == 0)
			close_it(c);
		if (n <= 0)
			break;
		keep(c, chunk, (size_t)n);
		log_text(c, chunk, (size_t)n);
		watch_for_panic(c, chunk, (size_t)n);
	}
}

static short wants(const void *self)
{
	const struct console *c = self;

	return c->fd >= 0 ? POLLIN : 0;
}

static void ready(void *self, short events)
{
	struct console *c = self;

	console_drain(c);
	if (!(events & POLLIN))
		close_it(c);
}

struct console *console_new(struct loop *loop, int fd, const char *log, struct err *err)
{
	struct console *c = xcalloc(1, sizeof(*c));

	*c = (struct console){ .loop = loop, .fd = fd, .log = -1 };
	c->source = (struct source){ .fd = fd, .wants = wants, .ready = ready, .self = c };
	loop_add(loop, &c->source);
	if (log) {
		c->log = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		if (c->log < 0) {
			err_errno(err, "%s", log);
			console_free(c);
			return NULL;
		}
	}
	return c;
}

void console_free(struct console *c)
{
	if (!c)
		return;
	loop_remove(c->loop, &c->source);
	fd_close(&c->fd);
	fd_close(&c->log);
	free(c);
}

bool console_panicked(const struct console *c)
{
	return c->panicked;
}

void console_forget_panic(struct console *c)
{
	c->panicked = false;
	c->matched = 0;
}

char *console_last(const struct console *c, int lines)
{
	CLEAN(buf) struct buf out = { 0 };

	text_last_lines(&out, c->text, c->len, lines);
	return buf_take(&out);
}

char *console_panic(const struct console *c)
{
	CLEAN(buf) struct buf out = { 0 };
	const char *at = memmem(c->text, c->len, panic_words, sizeof(panic_words) - 1);
	const char *end;

	if (!at)
		return xstrdup(panic_words);
	end = memchr(at, '\n', (size_t)(c->text + c->len - at));
	text_last_lines(&out, at, (size_t)((end ? end : c->text + c->len) - at), 1);
	return buf_take(&out);
}
