/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the machine: what is on its way to a disk gets there first, if it gets there at all.
 */
#ifndef ENDING_H
#define ENDING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "loop.h"

struct ending {
	int how;     /* RB_POWER_OFF or RB_AUTOBOOT */
	uint64_t at; /* when, 0: never */
	pid_t syncing;
};

/* sync: there is a disk. */
void ending_begin(struct ending *e, int how, bool sync);
/* True: the process was the one that synced. */
bool ending_reaped(struct ending *e, pid_t pid);
void ending_wants(const struct ending *e, struct loop *loop);
/* Ends the machine if it is time. */
void ending_turn(const struct ending *e);

#endif
