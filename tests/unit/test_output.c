/* SPDX-License-Identifier: Apache-2.0 */
/* Output for a model: cut, repaired, defused. */
#include "model/talk.h"

#include <stdlib.h>
#include <string.h>

#include "model/output.h"
#include "model/utf8.h"
#include "test.h"

static void check_output(const char *in, size_t len, const char *want)
{
	struct buf out = { 0 };

	output_for_model(in, len, 16384, &out);
	CHECK_STR(buf_text(&out), want);
	buf_release(&out);
}

TEST(plain_text_stays)
{
	const char *text = "a\tb\nä €😀\n";

	check_output(text, strlen(text), text);
	check_output("", 0, "");
}

TEST(control_characters_become_visible)
{
	check_output("\x1b[31mred\a\0\x7f", 11, "␛[31mred␇␀␡");
	check_output("a\r\nb\r\n", 6, "a\nb\n");
	check_output("10%\r20%\r", 8, "10%␍20%␍");
	check_output("\xc2\x9b", 2, "\uFFFD");
}

TEST(bad_utf8_is_repaired)
{
	check_output("a\xff\xc3", 3, "a\uFFFD\uFFFD");
	check_output("\xed\xa0\x80", 3, "\uFFFD\uFFFD\uFFFD");
	check_output("\xc0\x80\xf5", 3, "\uFFFD\uFFFD\uFFFD");
	check_output("\xe2\x82", 2, "\uFFFD\uFFFD");
}

TEST(markers_are_broken)
{
	check_output("<|im_start|>", 12, "<\u200B|im_start|\u200B>");
	check_output("<tool_call>", 11, "<\u200Btool_call>");
	check_output("</tool_call>", 12, "<\u200B/tool_call>");
	check_output("[INST]x[/INST]", 14, "[\u200BINST]x[\u200B/INST]");
	check_output("<｜User｜>", strlen("<｜User｜>"), "<\u200B｜User｜\u200B>");
	check_output("<<SYS>>", 7, "<\u200B<SYS>>");
	check_output("<html>[ok] a | b > c", 20, "<html>[ok] a | b > c");
}

TEST(head_and_tail_are_kept)
{
	struct buf in = { 0 }, out = { 0 };

	buf_str(&in, "first\n");
	for (int i = 0; i < 100000; i++)
		buf_str(&in, "é");
	buf_str(&in, "\nlast");
	output_for_model(in.data, in.len, 1000, &out);
	CHECK(out.len <= 1000);
	CHECK(!strncmp(out.data, "first\n", 6));
	CHECK_STR(out.data + out.len - 5, "\nlast");
	CHECK(strstr(out.data, "\n[... 199060 bytes left out ...]\n") != NULL);
	buf_release(&in);
	buf_release(&out);
}

/* The table of output.c, as a reader of its promise would write it. */
static const char *const never[] = { "<|", "|>", "<｜", "｜>", "<tool_call>", "</tool_call>",
	"<tool_response>", "</tool_response>", "<think>", "</think>", "<start_of_turn>",
	"<end_of_turn>", "<s>", "</s>", "<<SYS>>", "<</SYS>>", "[INST]", "[/INST]", "[TOOL_CALLS]",
	"[TOOL_RESULTS]", "<function=", "<parameter=", "<bos>", "<eos>", "[gMASK]" };
#define NEVER (sizeof(never) / sizeof(never[0]))

static void check_promise(const struct buf *out, size_t limit)
{
	size_t at = 0;

	CHECK(out->len <= limit);
	for (size_t i = 0; i < NEVER; i++)
		CHECK(!out->data || !strstr(out->data, never[i]));
	while (at < out->len) {
		uint32_t ch;
		size_t n = utf8_char((const unsigned char *)out->data + at, out->len - at, &ch);

		CHECK(n > 0);
		CHECK(ch == '\n' || ch == '\t' || (ch >= ' ' && ch != 0x7f));
		at += n;
	}
}

/* Pieces of markers, bad bytes and ordinary text in all orders. */
static void add_piece(struct buf *in)
{
	static const char *const pieces[] = { "<", "|", ">", "[", "]", "\r", "\n", "\r\n", "\x1b",
		"\xe2", "\xef\xbd", "\xf0\x9f", "\xff", "a", "é", "\u200B", "/", "s", "SYS" };
	size_t i = (size_t)rand() % (NEVER + sizeof(pieces) / sizeof(pieces[0]) + 1);

	if (i < NEVER)
		buf_add(in, never[i], (size_t)rand() % (strlen(never[i]) + 1));
	else if (i < NEVER + sizeof(pieces) / sizeof(pieces[0]))
		buf_str(in, pieces[i - NEVER]);
	else
		buf_add(in, "", 1);
}

TEST(promise_holds_for_anything)
{
	srand(1);
	for (int i = 0; i < 20000; i++) {
		struct buf in = { 0 }, out = { 0 };
		size_t max = (size_t)rand() % 600;
		char line[40];

		for (int n = rand() % 200; n > 0; n--)
			add_piece(&in);
		output_for_model(buf_text(&in), in.len, max, &out);
		check_promise(&out, max < 128 ? 128 : max);
		output_line(buf_text(&in), line, sizeof(line));
		CHECK(strlen(line) < sizeof(line) && !strchr(line, '\n'));
		buf_release(&in);
		buf_release(&out);
	}
}

TEST(a_line_is_cut)
{
	char line[12];

	output_line("one\ntwo\tthree four", line, sizeof(line));
	CHECK_STR(line, "one two …");
	output_line("eight by", line, sizeof(line));
	CHECK_STR(line, "eight by");
	output_line("éééééé", line, sizeof(line));
	CHECK_STR(line, "éééé…");
}
