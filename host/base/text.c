/* SPDX-License-Identifier: Apache-2.0 */
/* Text that a guest wrote, made fit for a person's terminal. */
#include "text.h"

#include <stdbool.h>
#include <string.h>

#define LINE_SHOWN 160 /* bytes of one line */

/* c begins a character, or is none. Says which bytes may follow. */
static void begin_character(struct taming *t, uint8_t c)
{
	t->due = c < 0xc2 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : c < 0xf5 ? 3 : 0;
	/* None that is longer than it need be, no surrogates, and after C2 no controls. */
	t->low = c == 0xc2 || c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	t->high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
}

static bool tamed(struct taming *t, uint8_t c)
{
	if (t->due && c >= t->low && c <= t->high) {
		t->due--;
		t->low = 0x80;
		t->high = 0xbf;
		return false;
	}
	begin_character(t, c);
	if (c < 0x20)
		return c != '\n' && c != '\t' && c != '\r';
	return c == 0x7f || (c >= 0x80 && c <= 0x9f);
}

void text_tame(struct taming *t, char *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (tamed(t, (uint8_t)data[i]))
			data[i] = '?';
}

/* How long the escape sequence at this place is; 0: there is none. */
static size_t escape_len(const char *s, size_t len)
{
	size_t i = 2;

	if (len < 2 || s[0] != 033 || s[1] != '[')
		return 0;
	while (i < len && s[i] >= 0x20 && s[i] < 0x40)
		i++;
	return i < len ? i + 1 : i;
}

/* One line without colour codes and controls. */
static void add_line(struct buf *out, const char *s, size_t len)
{
	size_t shown = 0;

	for (size_t i = 0; i < len && shown < LINE_SHOWN; i++) {
		size_t skip = escape_len(s + i, len - i);
		char c = s[i];

		if (skip) {
			i += skip - 1;
			continue;
		}
		if (c == '\r')
			continue;
		c = c >= 0x20 && c < 0x7f ? c : '?';
		buf_add(out, &c, 1);
		shown++;
	}
}

static bool blank(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] > ' ')
			return false;
	return true;
}

void text_last_lines(struct buf *out, const char *untrusted_text, size_t len, int lines)
{
	size_t end = len, start;

	/* The newest line comes last, so the ones before it are added first. */
	for (;;) {
		start = end;
		while (start && untrusted_text[start - 1] != '\n')
			start--;
		if (!blank(untrusted_text + start, end - start))
			break;
		if (!start)
			return;
		end = start - 1;
	}
	if (lines > 1 && start) {
		size_t had = out->len;

		text_last_lines(out, untrusted_text, start - 1, lines - 1);
		if (out->len > had)
			buf_str(out, " | ");
	}
	add_line(out, untrusted_text + start, end - start);
}
