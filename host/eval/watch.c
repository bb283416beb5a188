/* SPDX-License-Identifier: Apache-2.0 */
/* What people see of a running trial. */
#include "watch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define STEP_ON_TERMINAL 48 /* characters; longer lines would wrap and could not be rewritten */

static void draw(struct watch *w)
{
	if (w->terminal)
		fprintf(stderr, "\r\033[K%.24s %d/%d  %3lld s  %.*s", w->scenario, w->number, w->of,
			(long long)(clock_ms() - w->start) / 1000, STEP_ON_TERMINAL, w->step);
	else
		fprintf(stderr, "%s %d/%d  %s\n", w->scenario, w->number, w->of, w->step);
	fflush(stderr);
	w->redraw = w->terminal ? clock_in(1000) : CLOCK_NEVER;
}

/* Steps quote commands of a model: nothing but printable ASCII reaches the terminal. */
static void take_byte(struct watch *w, char c)
{
	if (c != '\n') {
		if (w->coming_len < WATCH_LINE - 1)
			w->coming[w->coming_len++] = c >= ' ' && c <= '~' ? c : '?';
		return;
	}
	memcpy(w->step, w->coming, w->coming_len);
	w->step[w->coming_len] = 0;
	w->coming_len = 0;
	draw(w);
}

static short wants(const void *self)
{
	const struct watch *w = self;

	return w->ended ? 0 : POLLIN;
}

static int64_t due(const void *self)
{
	const struct watch *w = self;

	return w->redraw;
}

static void ready(void *self, short events)
{
	struct watch *w = self;
	char chunk[4096];
	ssize_t n;

	if (!events) {
		draw(w);
		return;
	}
	n = read(w->source.fd, chunk, sizeof(chunk));
	for (ssize_t i = 0; i < n; i++)
		take_byte(w, chunk[i]);
	if (n == 0 || (n < 0 && errno != EINTR))
		w->ended = true;
}

void watch_init(struct watch *w, int fd, const char *scenario, int number, int of)
{
	*w = (struct watch){
		.source = { .fd = fd, .wants = wants, .due = due, .ready = ready, .self = w },
		.scenario = scenario,
		.number = number,
		.of = of,
		.terminal = isatty(STDERR_FILENO),
		.start = clock_ms(),
		.redraw = CLOCK_NEVER,
	};
}

void watch_release(struct watch *w)
{
	if (w->terminal)
		fputs("\r\033[K", stderr);
	fd_close(&w->source.fd);
}
