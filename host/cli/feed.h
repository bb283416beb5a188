/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our standard input on its way to a command of the guest, at the command's pace.
 *
 * The descriptor may be shared with other processes, so it is never made non-blocking: it is asked
 * by poll, and read once. A pipe or a file is read only when there is room. At a terminal more is
 * kept, since three presses of Ctrl-] within a second must be seen even when the guest takes
 * nothing any more.
 */
#ifndef FEED_H
#define FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "link/session.h"

/* Zeroed is one that was never begun. */
struct feed {
	struct loop *loop;
	struct source source;
	struct command **command;
	bool terminal;

	uint8_t *pending; /* read and not taken, owned */
	size_t len, room;
	bool ended;   /* nothing more comes */
	bool told;    /* and the guest was told */
	int error;    /* errno that ended it */
	bool escaped; /* three presses were seen */
	unsigned presses;
	int64_t first_press;
};

/* Borrows all until feed_release. */
void feed_init(struct feed *f, struct loop *loop, int fd, struct command **command, bool terminal);
void feed_release(struct feed *f);

/* The command has room: as its input_wanted. */
void feed_push(struct feed *f);

#endif
