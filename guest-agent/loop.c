/* SPDX-License-Identifier: Apache-2.0 */
/* One poll call per turn, always bounded: a lost wake-up costs a second, not the session. */
#include "loop.h"

#include <assert.h>
#include <time.h>

#define TURN_MS 1000

uint64_t now_ms(void)
{
	struct timespec t;

	/* No call into the kernel, and no device read, whatever its clock is. It is late by a tick
	 * at most. */
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000 + 1;
}

void loop_begin(struct loop *loop)
{
	loop->n = 0;
	loop->until = now_ms() + TURN_MS;
}

void loop_want(struct loop *loop, int fd, short events, void (*ready)(void *self), void *self)
{
	assert(loop->n < SOURCES);
	loop->fds[loop->n] = (struct pollfd){ .fd = fd, .events = events };
	loop->wakes[loop->n].ready = ready;
	loop->wakes[loop->n].self = self;
	loop->n++;
}

void loop_until(struct loop *loop, uint64_t when_ms)
{
	if (when_ms < loop->until)
		loop->until = when_ms;
}

void loop_turn(struct loop *loop)
{
	uint64_t now = now_ms();
	int wait = loop->until > now ? (int)(loop->until - now) : 0;

	if (poll(loop->fds, loop->n, wait) <= 0)
		return;
	for (size_t i = 0; i < loop->n; i++)
		if (loop->fds[i].revents)
			loop->wakes[i].ready(loop->wakes[i].self);
}
