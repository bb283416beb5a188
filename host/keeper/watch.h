/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a machine still worth keeping, and if not, what became of it?
 *
 * Five ends, told apart by evidence: the guest powered off, its kernel panicked, QEMU was ended
 * from outside, the host ran out of memory (its kernel has just counted one that it killed for
 * that), and the agent is gone: its end of the channel is closed, and neither a reboot nor the time
 * that it may take brings it back.
 */
#ifndef WATCH_H
#define WATCH_H

#include "machine/machine.h"

struct watch {
	struct machine *machine;
	unsigned resets;
	int64_t closed; /* when the channel was seen closed; CLOCK_NEVER: it is open */
	bool rebooted;	/* since then */
	/* How many processes the host's kernel had killed for want of memory at the last two looks,
	 * and when to look again. */
	long long oom_kills[2];
	int64_t look_at;
	struct loop *loop;
	struct source source; /* wakes the loop when it may be over though nothing happens */
};

/* Borrows both until watch_end. */
void watch_begin(struct watch *w, struct loop *loop, struct machine *m);
void watch_end(struct watch *w);
/* Is it over? */
bool watch_over(struct watch *w);
/* One sentence about how it ended. Returns owned. */
char *watch_story(const struct watch *w);

#endif
