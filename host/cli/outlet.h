/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A descriptor of ours that a guest program's output goes to, at the reader's pace.
 *
 * The descriptor may be shared with other processes, so it is never made non-blocking: it is
 * asked by poll and gets at most as much as a pipe that is ready takes at once. A terminal, which
 * may take less, is opened once more for us alone.
 */
#ifndef OUTLET_H
#define OUTLET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/loop.h"
#include "base/text.h"
#include "link/session.h"

struct outlet {
	struct loop *loop;
	struct source source;
	struct command **command; /* told what is consumed */
	enum stream_part part;

	struct buf pending;
	size_t written; /* of pending */
	int own;	/* the terminal, opened by us; -1: none */
	bool tame;	/* control characters are taken out */
	struct taming taming;
	uint8_t before; /* the last byte that came */
	int error;	/* errno that ended it: later output is thrown away */
};

/* Borrows all until outlet_release. as_is: also what may drive a terminal. */
void outlet_init(struct outlet *o, struct loop *loop, int fd, struct command **command,
	enum stream_part part, bool as_is);
void outlet_release(struct outlet *o);

/* As the output callback of a command: returns how much is used up now. */
size_t outlet_take(struct outlet *o, const uint8_t *untrusted_data, size_t len);
bool outlet_is_empty(const struct outlet *o);

#endif
