/* SPDX-License-Identifier: Apache-2.0 */
/* What people see of a running trial: its steps, one line each, or one line that changes. */
#ifndef WATCH_H
#define WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"

#define WATCH_LINE 160 /* bytes of a step, its NUL included */

struct watch {
	struct source source; /* the worker's end of the pipe is fd */
	const char *scenario; /* borrowed */
	int number, of;
	bool terminal; /* standard error is one */
	bool ended;    /* the worker closed its end */
	char step[WATCH_LINE], coming[WATCH_LINE];
	unsigned coming_len;
	int64_t start, redraw;
};

/* Takes fd. Show it with loop_add(&w->source). */
void watch_init(struct watch *w, int fd, const char *scenario, int number, int of);
/* Takes the line that changes off the terminal, and closes. */
void watch_release(struct watch *w);

#endif
