/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that grow. */
#include "buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "xalloc.h"

static void make_room(struct buf *b, size_t len)
{
	size_t need = b->len + len + 1;

	if (need <= b->room)
		return;
	b->room = need < 64 ? 64 : need * 2;
	b->data = xrealloc(b->data, b->room);
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	make_room(b, len);
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = 0;
}

void buf_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap, again;
	int len;

	va_start(ap, fmt);
	va_copy(again, ap);
	len = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (len > 0) {
		make_room(b, (size_t)len);
		(void)vsnprintf(b->data + b->len, (size_t)len + 1, fmt, again);
		b->len += (size_t)len;
	}
	va_end(again);
}

const char *buf_text(const struct buf *b)
{
	return b->data ? b->data : "";
}

char *buf_take(struct buf *b)
{
	char *data = b->data ? b->data : xstrdup("");

	*b = (struct buf){ 0 };
	return data;
}

void buf_release(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ 0 };
}
