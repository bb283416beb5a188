/* SPDX-License-Identifier: Apache-2.0 */
/* One wait for everything. Who wants to be woken says so anew each turn. */
#ifndef LOOP_H
#define LOOP_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "limits.h"

/* Three pipes and a report per operation; port, signals, freeze, handover. */
#define SOURCES (4 * OPERATIONS_MAX + 4)

struct loop {
	size_t n;
	uint64_t until; /* ms on the clock of now_ms() */
	struct pollfd fds[SOURCES];
	struct {
		void (*ready)(void *self);
		void *self;
	} wakes[SOURCES];
};

/* Milliseconds on the monotonic clock; never 0. */
uint64_t now_ms(void);

/* Forgets all wishes. A turn lasts a second at most. */
void loop_begin(struct loop *loop);
/* ready is called when fd has one of the events, or was hung up; it must cope with being wrong. */
void loop_want(struct loop *loop, int fd, short events, void (*ready)(void *self), void *self);
/* The turn ends at this time at the latest. */
void loop_until(struct loop *loop, uint64_t when_ms);
/* Waits, then wakes in the order of the wishes. */
void loop_turn(struct loop *loop);

#endif
