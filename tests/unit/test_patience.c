/* SPDX-License-Identifier: Apache-2.0 */
/* How long a command is waited for. */
#include "base/clock.h"
#include "cli/patience.h"
#include "test.h"

#define DUE  21000 /* a second, the grace, and the lateness that is borne */
#define MORE 20000 /* without the second */
#define MUCH 100000000

static struct patience p;

TEST(without_a_deadline_for_ever)
{
	patience_init(&p, 0, 0);
	patience_extend(&p, MUCH, MUCH);
	CHECK(p.deadline == CLOCK_NEVER);
}

TEST(a_slow_reader_gets_what_was_under_way)
{
	patience_init(&p, 1000, 0);
	CHECK_INT(p.deadline, DUE);
	patience_extend(&p, MUCH, 500);
	CHECK_INT(p.deadline, DUE);
	/* However much came while the guest had time. */
	patience_extend(&p, 2 * MUCH, 10000);
	CHECK_INT(p.deadline, 10000 + MORE);
	for (int64_t now = DUE; now < MUCH; now += 10000) {
		patience_extend(&p, 3 * MUCH, now);
		CHECK_INT(p.deadline, now + MORE);
	}
}

TEST(a_guest_that_floods_gets_no_more_time)
{
	int64_t now = 0, end;

	patience_init(&p, 1000, 0);
	for (; now <= DUE; now += 1000)
		patience_extend(&p, MUCH + (uint64_t)now * 1000, now);
	end = p.deadline;
	for (; now < MUCH; now += 1000)
		patience_extend(&p, MUCH + (uint64_t)now * 1000, now);
	CHECK(p.deadline <= end + 3000);
}
