/* SPDX-License-Identifier: Apache-2.0 */
/* TAP from a hostile machine: what is believed, and what is not. */
#include "eval/tap.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

static bool parse(const char *text, struct tap *tap, struct err *err)
{
	return tap_parse(text, strlen(text), tap, err);
}

/* Refused, with a reason that holds these words. */
static void refuse(const char *text, const char *words)
{
	struct err err = { 0 };
	struct tap tap;

	CHECK(!parse(text, &tap, &err));
	CHECK(strstr(err.text, words));
	tap_release(&tap);
}

TEST(reads_results_and_diagnostics)
{
	struct err err = { 0 };
	struct tap tap;

	CHECK(parse("ok 1 - site-answers\n# HTTP/1.1 200 OK\nnot ok 2 - port is nginx\n"
		    "# listening: \x1b[2Jperl\n#two\n1..2\n",
		&tap, &err));
	CHECK_INT((long long)tap.len, 2);
	CHECK_INT((long long)tap.failed, 1);
	CHECK_STR(tap.checks[0].name, "site-answers");
	CHECK(tap.checks[0].ok);
	CHECK_STR(tap.checks[0].diagnostics, "HTTP/1.1 200 OK\n");
	CHECK_STR(tap.checks[1].name, "port is nginx");
	CHECK(!tap.checks[1].ok);
	CHECK_STR(tap.checks[1].diagnostics, "listening: ?[2Jperl\ntwo\n");
	tap_release(&tap);
}

TEST(takes_the_plan_first)
{
	struct err err = { 0 };
	struct tap tap;

	CHECK(parse("1..1\nok 1 - a\n", &tap, &err));
	CHECK_INT((long long)tap.len, 1);
	tap_release(&tap);
}

TEST(wants_one_plan_that_is_kept)
{
	refuse("", "no plan");
	refuse("ok 1 - a\n", "no plan");
	refuse("1..2\nok 1 - a\n", "2 checks were planned, 1 reported");
	refuse("1..1\nok 1 - a\nok 2 - b\n", "planned");
	refuse("1..1\n1..1\nok 1 - a\n", "second plan");
	refuse("1..0\n", "not a plan");
	refuse("1..01\nok 1 - a\n", "not a plan");
	refuse("1..99999999999999999999\n", "not a plan");
	refuse("1..1 # SKIP all\n", "not a plan");
	refuse("ok 1 - a\n1..1\nok 2 - b\n", "behind the plan");
}

TEST(wants_results_in_order)
{
	refuse("ok 2 - a\n1..1\n", "want result 1");
	refuse("ok 1 - a\nok 1 - b\n1..2\n", "want result 2");
	refuse("ok 1 - a\nok 3 - b\n1..2\n", "want result 2");
	refuse("ok - a\n1..1\n", "want result 1");
}

TEST(wants_plain_names_once)
{
	refuse("ok 1 - a\nok 2 - a\n1..2\n", "was there before");
	refuse("ok 1\n1..1\n", "NAME");
	refuse("ok 1 a\n1..1\n", "NAME");
	refuse("ok 1 - \n1..1\n", "NAME");
	refuse("ok 1 - a # SKIP no\n1..1\n", "NAME");
	refuse("not ok 1 - a # TODO later\n1..1\n", "NAME");
	refuse("ok 1 - \x1b[1m\n1..1\n", "NAME");
}

TEST(refuses_other_lines)
{
	refuse("Bail out!\n", "not a line of TAP");
	refuse("\nok 1 - a\n1..1\n", "line 1: not a line of TAP");
	refuse("  ok 1 - a\n1..1\n", "not a line of TAP");
	refuse("OK 1 - a\n1..1\n", "not a line of TAP");
	refuse("TAP version 14\n1..1\nok 1 - a\n", "not a line of TAP");
	refuse("ok 1 - a\r\n1..1\r\n", "NAME");
	refuse("ok 1 - a\n1..1", "not ended");
}

TEST(bytes_of_zero_end_nothing)
{
	static const char text[] = "ok 1 - a\0b\n1..1\n";
	struct err err = { 0 };
	struct tap tap;

	CHECK(!tap_parse(text, sizeof(text) - 1, &tap, &err));
	tap_release(&tap);
}

TEST(bounds_what_it_keeps)
{
	static char text[TAP_CHECKS * 128 + 200000];
	struct err err = { 0 };
	size_t len = 0;
	struct tap tap;

	for (int i = 1; i <= TAP_CHECKS + 1; i++)
		len += (size_t)sprintf(text + len, "ok %d - check-%d\n", i, i);
	CHECK(!tap_parse(text, len, &tap, &err));
	CHECK_INT((long long)tap.len, TAP_CHECKS);
	tap_release(&tap);

	len = (size_t)sprintf(text, "ok 1 - a\n");
	for (int i = 0; i < 2000; i++)
		len += (size_t)sprintf(text + len, "# and so on and so on and so on\n");
	len += (size_t)sprintf(text + len, "1..1\n");
	CHECK(tap_parse(text, len, &tap, &err));
	CHECK(strlen(tap.checks[0].diagnostics) <= TAP_DIAGNOSTICS);
	tap_release(&tap);
}
