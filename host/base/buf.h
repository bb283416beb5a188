/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that grow.
 *
 * Zeroed is empty. data is NULL while nothing was ever added, else it holds len bytes and a NUL
 * behind them.
 */
#ifndef BUF_H
#define BUF_H

#include <stddef.h>

#include "clean.h"

struct buf {
	char *data;
	size_t len, room;
};

void buf_add(struct buf *b, const void *data, size_t len);
void buf_str(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The text, "" when empty. Borrowed until the next change. */
const char *buf_text(const struct buf *b);
/* Returns the text, owned; the buffer is empty afterwards. */
char *buf_take(struct buf *b);
void buf_release(struct buf *b);

static inline void buf_clean(struct buf *b)
{
	buf_release(b);
}

#endif
