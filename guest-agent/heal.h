/* SPDX-License-Identifier: Apache-2.0 */
/* What a machine needs that woke up from a copy of its memory. Each returns 0 or errno. */
#ifndef HEAL_H
#define HEAL_H

#include <stdint.h>

#include "wire.h"

/* Feeds the kernel's random number generator, and makes it use that at once. */
int heal_seed(struct bytes seed);
/* Sets the wall clock; 0: leave it. */
int heal_clock(uint64_t realtime_ns);

#endif
