/* SPDX-License-Identifier: Apache-2.0 */
/* The test runner itself: this program runs itself again, with faults switched on. */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool faulty(void)
{
	return getenv("RUNNER_FAULTS") != NULL;
}

TEST(check_fails)
{
	if (faulty())
		CHECK_INT(1, 2);
}

TEST(dies)
{
	if (faulty())
		abort();
}

TEST(leaves_a_descriptor)
{
	if (faulty())
		CHECK(dup(0) > 0);
}

TEST_WITHIN(hangs, 1)
{
	while (faulty())
		pause();
}

TEST(skips)
{
	if (faulty())
		SKIP("no reason");
}

TEST(reports_every_fault)
{
	char out[4096];
	size_t n;
	FILE *again;

	if (faulty())
		return;
	/* The name of this test is left out: it would run itself for ever. */
	again = popen("RUNNER_FAULTS=1 exec /proc/$PPID/exe check_fails dies leaves_a_descriptor "
		      "hangs skips",
		"r");
	CHECK(again);
	n = fread(out, 1, sizeof(out) - 1, again);
	out[n] = '\0';
	CHECK_INT(pclose(again), 1 << 8);
	CHECK(strstr(out, "1..5\n"));
	CHECK(strstr(out, "1 is 1 (0x1), want 2 (0x2)\nnot ok 1 - check_fails\n"));
	CHECK(strstr(out, "not ok 2 - dies\n"));
	CHECK(strstr(out, "not ok 3 - leaves_a_descriptor\n"));
	CHECK(strstr(out, "# not done after 1 s\nnot ok 4 - hangs\n"));
	CHECK(strstr(out, "ok 5 - skips # SKIP no reason\n"));
}
