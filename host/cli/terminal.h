/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our terminal while a guest's program has it: raw, and as it was on every way out.
 *
 * How it works. In raw mode every key is a byte for the guest, Ctrl-C too. What the terminal was
 * like is kept for the whole process, which has one terminal: it is put back by terminal_leave, by
 * exit(), and before any signal that ends us, those the loop does not take as well. SIGTSTP from
 * outside puts it back, stops us, and makes it raw again when we go on; SIGWINCH tells of another
 * size. A background process leaves the terminal alone: its shell has set it.
 */
#ifndef TERMINAL_H
#define TERMINAL_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "err.h"

/* Zeroed is one that was never entered. */
struct terminal {
	int fd;
	struct loop *loop;
	struct source source; /* a signalfd */
	sigset_t mask;	      /* as it was */
	void (*resized)(void *self);
	void *self;
};

/* Borrows all until terminal_leave. resized: the size may be another; also after a stop. */
bool terminal_enter(struct terminal *t, struct loop *loop, int fd, void (*resized)(void *self),
	void *self, struct err *err);
/* Puts it back, and drops keys that the guest has not got: they were not meant for a shell of ours.
 */
void terminal_leave(struct terminal *t);

void terminal_size(const struct terminal *t, uint16_t *ret_rows, uint16_t *ret_columns);

#endif
