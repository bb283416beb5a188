/* SPDX-License-Identifier: Apache-2.0 */
/* Text of guests made fit to be shown. */
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "test.h"

static void check_tamed(const char *given, const char *wanted)
{
	char text[64] = "";
	struct taming taming = { 0 };

	/* Byte by byte: nothing may depend on how the pieces were cut. */
	strncpy(text, given, sizeof(text) - 1);
	for (size_t i = 0; i < strlen(given); i++)
		text_tame(&taming, text + i, 1);
	CHECK_STR(text, wanted);
}

TEST(control_characters_are_tamed)
{
	check_tamed("a\tb\r\n", "a\tb\r\n");
	check_tamed("\033[31mred\033[0m", "?[31mred?[0m");
	check_tamed("\033]0;title\007", "?]0;title?");
	check_tamed("del\177", "del?");
	check_tamed("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
	check_tamed("\xc2\x9b"
		    "31m",
		"\xc2?31m");
	check_tamed("\xc2\xb5", "\xc2\xb5");
}

TEST(bytes_that_are_no_characters_are_tamed)
{
	check_tamed("\x9b"
		    "31m",
		"?31m");
	check_tamed(
		"\xe2\x9b\x84 \xf0\x9f\x98\x80 \xc3\x9b", "\xe2\x9b\x84 \xf0\x9f\x98\x80 \xc3\x9b");
	/* Longer than need be, cut short, too many, out of range. */
	check_tamed("\xc0\x9b", "\xc0?");
	check_tamed("\xe0\x82\x9b", "\xe0??");
	check_tamed("\xf0\x80\x82\x9b", "\xf0???");
	check_tamed("\xe2\x9b[\x9b", "\xe2\x9b[?");
	check_tamed("\xc3\x9b\x9b", "\xc3\x9b?");
	check_tamed("\xf5\x9b\xff\x90", "\xf5?\xff?");
}

static void check_last(const char *text, int lines, const char *wanted)
{
	CLEAN(buf) struct buf out = { 0 };

	text_last_lines(&out, text, strlen(text), lines);
	CHECK_STR(buf_text(&out), wanted);
}

TEST(last_lines)
{
	check_last("", 2, "");
	check_last("\n \n\r\n", 2, "");
	check_last("one", 2, "one");
	check_last("one\ntwo\nthree\n", 2, "two | three");
	check_last("one\n\n\r\ntwo\r\n\n", 2, "one | two");
	check_last("\033[0;32m  OK  \033[0m started\n", 1, "  OK   started");
	check_last("bad\001\377bytes\n", 1, "bad??bytes");
	check_last("cut\033[", 1, "cut");
}

TEST(long_lines_are_cut)
{
	CLEAN(buf) struct buf out = { 0 };
	char text[1000];

	memset(text, 'x', sizeof(text));
	text_last_lines(&out, text, sizeof(text), 3);
	CHECK_INT(out.len, 160);
}

TEST(a_list_is_taken_apart)
{
	char text[] = "one, two.x three", *rest = text, *none = NULL;

	CHECK_STR(list_next(&rest), "one");
	CHECK_STR(list_next(&rest), "two.x");
	CHECK_STR(list_next(&rest), "three");
	CHECK(!list_next(&rest));
	CHECK(!list_next(&rest));
	CHECK(!list_next(&none));
}
