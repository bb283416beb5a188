/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, checked strictly. */
#include "utf8.h"

#include <stdbool.h>

/* Bytes that follow this first one, or -1. */
static int following(unsigned char c)
{
	if (c < 0x80)
		return 0;
	if (c >= 0xc2 && c <= 0xdf)
		return 1;
	if (c >= 0xe0 && c <= 0xef)
		return 2;
	return c >= 0xf0 && c <= 0xf4 ? 3 : -1;
}

static bool allowed(uint32_t ch, int follow)
{
	static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };

	return ch >= least[follow] && ch <= 0x10ffff && !(ch >= 0xd800 && ch <= 0xdfff);
}

size_t utf8_char(const unsigned char *p, size_t left, uint32_t *ret_char)
{
	int follow = left ? following(p[0]) : -1;
	uint32_t ch;

	if (follow < 0 || left <= (size_t)follow)
		return 0;
	ch = follow ? p[0] & (0x3fu >> follow) : p[0];
	for (int i = 1; i <= follow; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		ch = ch << 6 | (p[i] & 0x3fu);
	}
	if (!allowed(ch, follow))
		return 0;
	*ret_char = ch;
	return (size_t)follow + 1;
}

void utf8_repair(const void *untrusted_data, size_t len, struct buf *out)
{
	const unsigned char *p = untrusted_data, *end = p + len, *good = p;

	while (p < end) {
		uint32_t ch;
		size_t n = utf8_char(p, (size_t)(end - p), &ch);

		if (n) {
			p += n;
			continue;
		}
		buf_add(out, good, (size_t)(p - good));
		buf_str(out, "\uFFFD");
		good = ++p;
	}
	buf_add(out, good, (size_t)(end - good));
}
