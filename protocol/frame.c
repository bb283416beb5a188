/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: headers, the inbox, and the one header that may stand nowhere else. */
#include "frame.h"

#include "crc32.h"
#include "messages.h"

void frame_put_header(uint8_t out[FRAME_HEADER], const struct frame *f)
{
	struct writer w = writer_of(out, FRAME_HEADER);

	put_u32(&w, FRAME_MAGIC);
	put_u16(&w, f->type);
	put_u16(&w, f->flags);
	put_u32(&w, f->stream);
	put_u32(&w, (uint32_t)f->body.len);
	put_u32(&w, f->tag);
	put_u32(&w, crc32_of(out, FRAME_HEADER - 4));
}

size_t frame_put(uint8_t *out, const struct frame *f)
{
	frame_put_header(out, f);
	/* Some libraries copy even what is in its place. */
	if (f->body.data && f->body.len && f->body.data != out + FRAME_HEADER)
		memcpy(out + FRAME_HEADER, f->body.data, f->body.len);
	out[FRAME_HEADER + f->body.len] = FRAME_END;
	return FRAME_OVERHEAD + f->body.len;
}

static bool get_header(const uint8_t *at, struct frame *ret_frame)
{
	struct reader r = { at, at + FRAME_HEADER, false };
	uint32_t magic = get_u32(&r), len, crc;
	struct frame f = { 0 };

	if (magic != FRAME_MAGIC)
		return false;
	f.type = get_u16(&r);
	f.flags = get_u16(&r);
	f.stream = get_u32(&r);
	len = get_u32(&r);
	f.tag = get_u32(&r);
	crc = get_u32(&r);
	if (len > PAYLOAD_MAX || crc != crc32_of(at, FRAME_HEADER - 4))
		return false;
	if (f.type == MSG_HELLO && (len != HELLO_BODY || f.flags || f.stream || f.tag))
		return false;
	f.body = bytes_of(at + FRAME_HEADER, len);
	*ret_frame = f;
	return true;
}

#define LAST (FRAME_HEADER - 1)

/* The header of a HELLO, and how far behind a byte that is not its last one it may yet end. */
struct pattern {
	uint8_t header[FRAME_HEADER], skip[256];
};

static void make_pattern(struct pattern *p)
{
	frame_put_header(
		p->header, &(struct frame){ .type = MSG_HELLO, .body = { NULL, HELLO_BODY } });
	memset(p->skip, FRAME_HEADER, sizeof(p->skip));
	for (size_t i = 0; i < LAST; i++)
		p->skip[p->header[i]] = (uint8_t)(LAST - i);
}

/*
 * Where the header of a HELLO begins in data, or NULL. Looks at the place of its last byte alone
 * (Horspool), which is one byte of 24 in most data: all bulk comes by here.
 */
static const uint8_t *find_hello(const uint8_t *data, size_t len)
{
	static struct pattern hello;

	if (!hello.skip[0])
		make_pattern(&hello);
	for (size_t at = LAST; at < len; at += hello.skip[data[at]])
		if (data[at] == hello.header[LAST] &&
			!memcmp(data + at - LAST, hello.header, FRAME_HEADER))
			return data + at - LAST;
	return NULL;
}

size_t hello_split(const uint8_t *data, size_t len)
{
	const uint8_t *hello = find_hello(data, len);

	return hello ? (size_t)(hello - data) + FRAME_HEADER / 2 : len;
}

uint8_t *inbox_space(struct inbox *in, size_t *ret_size)
{
	if (in->at) {
		memmove(in->buf, in->buf + in->at, in->len - in->at);
		in->clean -= in->clean < in->at ? in->clean : in->at;
		in->len -= in->at;
		in->at = 0;
	}
	*ret_size = sizeof(in->buf) - in->len;
	return in->buf + in->len;
}

void inbox_filled(struct inbox *in, size_t n)
{
	in->len += n;
	if (in->dirty < in->len)
		in->dirty = in->len;
}

/* Where the first HELLO behind the current position begins; in->len when there is none. */
static size_t hello_ahead(struct inbox *in)
{
	size_t from = in->clean > in->at ? in->clean : in->at + 1;
	const uint8_t *hello;

	if (from > in->len)
		return in->len;
	hello = find_hello(in->buf + from, in->len - from);
	if (hello)
		in->clean = (size_t)(hello - in->buf);
	else if (in->len - from >= FRAME_HEADER)
		in->clean = in->len - FRAME_HEADER + 1;
	else
		in->clean = from;
	return hello ? in->clean : in->len;
}

static void skip_to(struct inbox *in, size_t at)
{
	in->skipped += at - in->at;
	in->at = at;
}

bool inbox_next(struct inbox *in, struct frame *ret_frame)
{
	while (in->len - in->at >= FRAME_HEADER) {
		struct frame f;
		size_t end, hello;

		if (!get_header(in->buf + in->at, &f)) {
			skip_to(in, in->at + 1);
			continue;
		}
		end = in->at + FRAME_OVERHEAD + f.body.len;
		hello = hello_ahead(in);
		if (hello < in->len && hello < end) {
			skip_to(in, hello);
			continue;
		}
		if (in->len < end)
			return false;
		if (in->buf[end - 1] != FRAME_END) {
			skip_to(in, in->at + 1);
			continue;
		}
		in->at = end;
		*ret_frame = f;
		return true;
	}
	return false;
}

void inbox_clear(struct inbox *in)
{
	in->at = in->len = in->clean = 0;
}

void inbox_wipe(struct inbox *in)
{
	explicit_bzero(in->buf, in->at);
	explicit_bzero(in->buf + in->len, in->dirty - in->len);
	in->dirty = in->len;
}
