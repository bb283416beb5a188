/* SPDX-License-Identifier: Apache-2.0 */
/* A listening socket of the keeper's: takes connections while there is room for them. */
#ifndef DOOR_H
#define DOOR_H

#include "base/loop.h"

struct door {
	struct source source;
	int64_t rests_until; /* after the host had no descriptor for one */
	bool (*has_room)(const void *self);
	void (*take)(void *self, int fd); /* a connection, which doesn't block */
	void *self;
};

/* Takes the socket (-1: none), sets the source, and adds it to the loop. The rest is the owner's.
 */
void door_open(struct door *d, struct loop *loop, int listener);
void door_close(struct door *d, struct loop *loop);

#endif
