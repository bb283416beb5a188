/* SPDX-License-Identifier: Apache-2.0 */
/* Text that a guest wrote, made fit for a person's terminal. */
#include "text.h"

#include <stdbool.h>
#include <string.h>

#define LINE_SHOWN 160 /* bytes of one line */

static bool tamed(uint8_t before, uint8_t c)
{
	if (c < 0x20)
		return c != '\n' && c != '\t' && c != '\r';
	/* U+0080 to U+009F are controls as well; C2 begins them in UTF-8. */
	return c == 0x7f || (before == 0xc2 && c >= 0x80 && c <= 0x9f);
}

void text_tame(uint8_t *before, char *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		uint8_t c = (uint8_t)data[i];

		if (tamed(*before, c))
			data[i] = '?';
		*before = c;
	}
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
