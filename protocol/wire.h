/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded cursors over bytes on the wire: big-endian, explicit sizes, no casts.
 *
 * A cursor that has run past its end stays bad; readers then yield zeros and empty ranges, so a
 * decoder reads all its fields and asks reader_done() once.
 */
#ifndef WIRE_H
#define WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
	const uint8_t *data;
	size_t len;
};

static inline struct bytes bytes_of(const void *data, size_t len)
{
	return (struct bytes){ data, len };
}

static inline struct bytes bytes_str(const char *s)
{
	return (struct bytes){ (const uint8_t *)s, strlen(s) };
}

struct reader {
	const uint8_t *at, *end;
	bool bad;
};

static inline struct reader reader_of(struct bytes b)
{
	return (struct reader){ b.data, b.data + b.len, false };
}

static inline const uint8_t *reader_take(struct reader *r, size_t n)
{
	const uint8_t *p = r->at;

	if (r->bad || (size_t)(r->end - r->at) < n) {
		r->bad = true;
		return NULL;
	}
	r->at += n;
	return p;
}

static inline uint8_t get_u8(struct reader *r)
{
	const uint8_t *p = reader_take(r, 1);

	return p ? *p : 0;
}

static inline uint16_t get_u16(struct reader *r)
{
	const uint8_t *p = reader_take(r, 2);

	if (!p)
		return 0;
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t get_u32(struct reader *r)
{
	const uint8_t *p = reader_take(r, 4);

	return p ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3] : 0;
}

static inline uint64_t get_u64(struct reader *r)
{
	uint64_t high = get_u32(r);

	return high << 32 | get_u32(r);
}

/* A length and that many bytes. Borrowed: valid as long as the buffer under the reader. */
static inline struct bytes get_bytes(struct reader *r)
{
	size_t len = get_u32(r);
	const uint8_t *p = reader_take(r, len);

	return (struct bytes){ p, p ? len : 0 };
}

static inline void get_raw(struct reader *r, void *out, size_t len)
{
	const uint8_t *p = reader_take(r, len);

	if (p)
		memcpy(out, p, len);
	else
		memset(out, 0, len);
}

/* Too short and too long are the same fault. */
static inline bool reader_done(const struct reader *r)
{
	return !r->bad && r->at == r->end;
}

struct writer {
	uint8_t *at, *end;
	bool bad;
};

static inline struct writer writer_of(void *buf, size_t size)
{
	return (struct writer){ buf, (uint8_t *)buf + size, false };
}

static inline void put_raw(struct writer *w, const void *data, size_t len)
{
	if (w->bad || (size_t)(w->end - w->at) < len) {
		w->bad = true;
		return;
	}
	if (len)
		memcpy(w->at, data, len);
	w->at += len;
}

static inline void put_u8(struct writer *w, uint8_t v)
{
	put_raw(w, &v, 1);
}

static inline void put_u16(struct writer *w, uint16_t v)
{
	const uint8_t b[] = { (uint8_t)(v >> 8), (uint8_t)v };

	put_raw(w, b, sizeof(b));
}

static inline void put_u32(struct writer *w, uint32_t v)
{
	const uint8_t b[] = { (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8),
		(uint8_t)v };

	put_raw(w, b, sizeof(b));
}

static inline void put_u64(struct writer *w, uint64_t v)
{
	put_u32(w, (uint32_t)(v >> 32));
	put_u32(w, (uint32_t)v);
}

static inline void put_bytes(struct writer *w, struct bytes b)
{
	put_u32(w, (uint32_t)b.len);
	put_raw(w, b.data, b.len);
}

#endif
