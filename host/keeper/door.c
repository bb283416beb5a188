/* SPDX-License-Identifier: Apache-2.0 */
/* A listening socket of the keeper's. */
#include "door.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"

#define REST_MS 1000

static short door_wants(const void *self)
{
	const struct door *d = self;

	return clock_ms() >= d->rests_until && d->has_room(d->self) ? POLLIN : 0;
}

static int64_t door_due(const void *self)
{
	const struct door *d = self;

	return clock_ms() < d->rests_until ? d->rests_until : CLOCK_NEVER;
}

/* A connection that can't be taken stays, and would wake the loop at once again. */
static void door_ready(void *self, short events)
{
	struct door *d = self;
	int fd;

	if (!events)
		return;
	fd = accept4(d->source.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0)
		d->take(d->self, fd);
	else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
		d->rests_until = clock_in(REST_MS);
}

void door_open(struct door *d, struct loop *loop, int listener)
{
	d->source = (struct source){
		.fd = listener, .wants = door_wants, .due = door_due, .ready = door_ready, .self = d
	};
	loop_add(loop, &d->source);
}

void door_close(struct door *d, struct loop *loop)
{
	loop_remove(loop, &d->source);
	fd_close(&d->source.fd);
}
