/* SPDX-License-Identifier: Apache-2.0 */
/* Append, and read numbers. */
#include "text.h"

#include <string.h>

struct text text_in(char *buf, size_t size)
{
	*buf = '\0';
	return (struct text){ .at = buf, .end = buf + size - 1 };
}

void text_add_part(struct text *t, const char *s, size_t len)
{
	size_t room = (size_t)(t->end - t->at);

	t->cut = t->cut || len > room;
	len = len > room ? room : len;
	memcpy(t->at, s, len);
	t->at += len;
	*t->at = '\0';
}

void text_add(struct text *t, const char *s)
{
	text_add_part(t, s, strlen(s));
}

void text_add_number(struct text *t, uint64_t n)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	text_add_part(t, digits + at, sizeof(digits) - at);
}

bool text_number(const char **at, uint64_t *ret_number)
{
	const char *p = *at;
	uint64_t n = 0;

	for (; *p >= '0' && *p <= '9'; p++) {
		if (n > (UINT64_MAX - 9) / 10)
			return false;
		n = n * 10 + (uint64_t)(*p - '0');
	}
	if (p == *at)
		return false;
	*at = p;
	*ret_number = n;
	return true;
}
