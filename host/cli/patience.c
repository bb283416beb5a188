/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines, and what may still come behind them. */
#include "patience.h"

#include "base/clock.h"
#include "foreground.h"
#include "limits.h"

#define ANSWER_MS 15000 /* that the guest is late with the end of a command */

/* In the pipe, in the agent and under way, of each of two outputs; and as much again. */
#define LATE_BYTES (8ull * STREAM_WINDOW)

void patience_init(struct patience *p, uint32_t deadline_ms, int64_t now)
{
	*p = (struct patience){ .deadline = CLOCK_NEVER, .due = CLOCK_NEVER };
	if (deadline_ms)
		p->deadline = p->due = now + (int64_t)deadline_ms + GRACE_MS + ANSWER_MS;
}

void patience_extend(struct patience *p, uint64_t came, int64_t now)
{
	if (!p->late && now >= p->due) {
		p->late = true;
		p->came = came;
	}
	if (p->late && came - p->came > LATE_BYTES)
		return;
	if (p->deadline < now + GRACE_MS + ANSWER_MS)
		p->deadline = now + GRACE_MS + ANSWER_MS;
}
