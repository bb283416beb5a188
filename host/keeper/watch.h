/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a machine still worth keeping, and if not, what became of it?
 *
 * Five ends, told apart by evidence: the guest powered off, its kernel panicked, QEMU was ended
 * from outside, the host ran out of memory (its kernel counts whom it killed for that), and the
 * agent is gone: its end of the channel is closed, and neither a reboot nor the time that it may
 * take brings it back.
 */
#ifndef WATCH_H
#define WATCH_H

#include "machine/machine.h"

struct watch {
	struct machine *machine;
	unsigned resets;
	int64_t closed;	     /* when the channel was seen closed; CLOCK_NEVER: it is open */
	bool rebooted;	     /* since then */
	long long oom_kills; /* of the host's kernel, when the watch began */
};

void watch_begin(struct watch *w, struct machine *m);
/* Is it over? */
bool watch_over(struct watch *w);
/* When to ask again at the latest, though nothing happens: on clock_ms(), or CLOCK_NEVER. */
int64_t watch_due(const struct watch *w);
/* One sentence about how it ended. Returns owned. */
char *watch_story(const struct watch *w);

#endif
