/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long to wait for a command that the guest was told to end.
 *
 * A reader of our output who is slow holds the guest up, which is no lateness of the guest's: then
 * it gets more time. But once the guest has had its time no program runs there any more, and only
 * what was under way still comes. A guest that sends more than that did not obey.
 */
#ifndef PATIENCE_H
#define PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

struct patience {
	int64_t deadline; /* of us, CLOCK_NEVER: for ever */
	int64_t due;	  /* the guest has had its time */
	bool late;	  /* that is over */
	uint64_t came;	  /* bytes of output before it was */
};

/* deadline_ms: the guest's own, 0: never. */
void patience_init(struct patience *p, uint32_t deadline_ms, int64_t now);
/* Output waits for its reader; so many bytes of it have come in all. */
void patience_extend(struct patience *p, uint64_t came, int64_t now);

#endif
