/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a guest printed, made fit for a model.
 *
 * How it works. Text is taken unit by unit: a unit is one character, one bad byte, a line end or
 * the first character of a chat marker, and has one fixed form for the model. Units depend on the
 * bytes from their start on alone, so that three passes from the beginning (how long, head, tail)
 * agree on them.
 */
#include "talk.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "output.h"
#include "utf8.h"

#define LEAST	  128 /* a smaller limit counts as this */
#define LINE_ROOM 48  /* for the line between head and tail */
#define UNIT_ROOM 8   /* the longest form of a unit */

#define BREAKER "\u200B"

/*
 * Texts that chat templates use as control tokens: servers take them for such also inside of a
 * message. A breaker after the first character makes plain text of them.
 */
static const char *const markers[] = {
	/* ChatML, Llama 3, Phi, gpt-oss, GLM, Kimi, Gemma 4; DeepSeek with its wide bar */
	"<|",
	"|>",
	"<｜",
	"｜>",
	/* calls, results and thoughts of Hermes, Qwen, GLM, MiniMax, Seed and others */
	"<tool_call>",
	"</tool_call>",
	"<tool_response>",
	"</tool_response>",
	"<tools>",
	"</tools>",
	"<think>",
	"</think>",
	"<function=",
	"</function>",
	"<parameter=",
	"</parameter>",
	"<arg_key>",
	"</arg_key>",
	"<arg_value>",
	"</arg_value>",
	"<minimax:",
	"</minimax:",
	"<seed:",
	"</seed:",
	"]~b]",
	"]~!b[",
	"[e~[",
	"[gMASK]",
	"<sop>",
	"<eop>",
	/* Gemma */
	"<start_of_turn>",
	"<end_of_turn>",
	"<start_function_",
	"<end_function_",
	"<bos>",
	"<eos>",
	"<pad>",
	/* Llama 2, Mistral */
	"<s>",
	"</s>",
	"<unk>",
	"<<SYS>>",
	"<</SYS>>",
	"[INST]",
	"[/INST]",
	"[SYSTEM_PROMPT]",
	"[/SYSTEM_PROMPT]",
	"[AVAILABLE_TOOLS]",
	"[/AVAILABLE_TOOLS]",
	"[TOOL_CALLS]",
	"[TOOL_RESULTS]",
	"[/TOOL_RESULTS]",
	"[TOOL_CONTENT]",
	"[CALL_ID]",
	"[ARGS]",
	"[THINK]",
	"[/THINK]",
};

struct unit {
	char form[UNIT_ROOM];
	size_t len;  /* of the form */
	size_t used; /* bytes of the input */
};

static bool marker_at(const unsigned char *p, size_t left)
{
	if (!strchr("<|[]\xef", p[0]))
		return false;
	for (size_t i = 0; i < sizeof(markers) / sizeof(markers[0]); i++) {
		size_t len = strlen(markers[i]);

		if (len <= left && !memcmp(p, markers[i], len))
			return true;
	}
	return false;
}

static void set_form(struct unit *u, const void *form, size_t len, size_t used)
{
	memcpy(u->form, form, len);
	u->len = len;
	u->used = used;
}

/* The picture of a control character: U+2400 and following. */
static void set_picture(struct unit *u, unsigned char c)
{
	const char form[] = { '\xe2', '\x90', (char)(0x80 + (c == 0x7f ? 0x21 : c)) };

	set_form(u, form, sizeof(form), 1);
}

static struct unit unit_at(const unsigned char *p, size_t left)
{
	struct unit u;
	uint32_t ch = 0;
	size_t n = utf8_char(p, left, &ch);

	if (p[0] == '\r' && left > 1 && p[1] == '\n') {
		set_form(&u, "\n", 1, 2);
	} else if (!n) {
		set_form(&u, "\uFFFD", 3, 1);
	} else if ((ch < 0x20 && ch != '\n' && ch != '\t') || ch == 0x7f) {
		set_picture(&u, p[0]);
	} else if (ch >= 0x80 && ch < 0xa0) {
		set_form(&u, "\uFFFD", 3, n);
	} else {
		set_form(&u, p, n, n);
		if (marker_at(p, left)) {
			memcpy(u.form + u.len, BREAKER, strlen(BREAKER));
			u.len += strlen(BREAKER);
		}
	}
	return u;
}

static size_t form_length(const unsigned char *p, size_t len)
{
	size_t total = 0;

	for (size_t at = 0; at < len;) {
		struct unit u = unit_at(p + at, len - at);

		total += u.len;
		at += u.used;
	}
	return total;
}

/* Adds units as long as their forms fit into room. Returns the bytes used. */
static size_t add_head(const unsigned char *p, size_t len, size_t room, struct buf *out)
{
	size_t at = 0;

	while (at < len) {
		struct unit u = unit_at(p + at, len - at);

		if (u.len > room)
			break;
		buf_add(out, u.form, u.len);
		room -= u.len;
		at += u.used;
	}
	return at;
}

/* Where the last units begin that fit into room together; total is the length of all forms. */
static size_t tail_start(const unsigned char *p, size_t len, size_t total, size_t room)
{
	size_t at = 0;

	while (total > room) {
		struct unit u = unit_at(p + at, len - at);

		total -= u.len;
		at += u.used;
	}
	return at;
}

void output_for_model(const void *untrusted_data, size_t len, size_t max, struct buf *out)
{
	const unsigned char *p = untrusted_data;
	size_t limit = max < LEAST ? LEAST : max;
	size_t total = form_length(p, len);
	size_t half = (limit - LINE_ROOM) / 2, head, tail;

	if (total <= limit) {
		add_head(p, len, limit, out);
		return;
	}
	head = add_head(p, len, half, out);
	tail = tail_start(p, len, total, half);
	if (out->len && out->data[out->len - 1] != '\n')
		buf_str(out, "\n");
	buf_printf(out, "[... %zu bytes left out ...]\n", tail - head);
	add_head(p + tail, len - tail, half, out);
}

void output_line(const char *untrusted_text, char *ret_line, size_t size)
{
	const unsigned char *p = (const unsigned char *)untrusted_text;
	size_t left = strlen(untrusted_text), at = 0;

	while (left) {
		struct unit u = unit_at(p, left);

		if (u.form[0] == '\n' || u.form[0] == '\t')
			u.form[0] = ' ';
		if (at + u.len + sizeof("…") > size && u.used < left) {
			at += (size_t)snprintf(ret_line + at, size - at, "…");
			break;
		}
		if (at + u.len >= size)
			break;
		memcpy(ret_line + at, u.form, u.len);
		at += u.len;
		p += u.used;
		left -= u.used;
	}
	ret_line[at] = '\0';
}
