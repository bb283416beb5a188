/* SPDX-License-Identifier: Apache-2.0 */
/* The world of the agent that is fuzzed: a channel, children and a clock that are only made up. */
#ifndef WORLD_H
#define WORLD_H

#include <stdint.h>

#include "wire.h"

extern uint64_t world_time; /* milliseconds */

/* The channel: bytes that the agent takes, and those that it said. What it takes is bounded. */
size_t world_say(const void *data, size_t len);
size_t world_hear(void *data, size_t size);
/* The agent loses the port and finds it again; bytes under way are gone. */
void world_reopen(void);

/* One doing of one child, as the script says. */
void world_act(struct reader *r);
/* All end. */
void world_end(void);

#endif
