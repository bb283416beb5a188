/* SPDX-License-Identifier: Apache-2.0 */
/* Statements that send. */
#include "statements.h"

#include <stdio.h>
#include <stdlib.h>

#include "messages.h"

const char *skip_blanks(const char *at)
{
	return at + strspn(at, " \t");
}

/* A number, or the turn of the loop. */
bool read_count(struct play *p, const char **at, unsigned long *ret_count)
{
	char *end;

	*at = skip_blanks(*at);
	*ret_count = strtoul(*at, &end, 10);
	if (!strncmp(*at, "{n}", 3)) {
		*ret_count = p->names->n;
		end = (char *)*at + 3;
	}
	if (end == *at)
		return err_set(p->err, ERR_INPUT, "want a number: %.20s", *at);
	*at = skip_blanks(end);
	return true;
}

bool read_stream(struct play *p, const char **at, uint32_t *ret_stream)
{
	unsigned long id, part = 0;

	if (!read_count(p, at, &id))
		return false;
	if (**at == '/') {
		++*at;
		if (!read_count(p, at, &part))
			return false;
	}
	*ret_stream = (uint32_t)(id << 2 | part);
	return true;
}

static uint16_t read_type(const char **at)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t len = strspn(*at, letters);
	const char *start = *at;
	char *end;

	if (!len) {
		unsigned long type = strtoul(start, &end, 10);

		*at = end;
		return (uint16_t)type;
	}
	*at += len;
	for (unsigned code = 1; message_known(code); code++)
		if (strlen(message_name(code)) == len && !strncmp(message_name(code), start, len))
			return (uint16_t)code;
	return 0;
}

bool read_named(struct play *p, const char *at, struct named *f)
{
	char *end;

	at = skip_blanks(at);
	*f = (struct named){ .type = read_type(&at) };
	if (!f->type)
		return err_set(p->err, ERR_INPUT, "no such message: %.20s", at);
	if (*at == '+') {
		f->flags = (uint16_t)strtoul(at + 1, &end, 10);
		at = end;
	}
	if (!read_stream(p, &at, &f->stream))
		return false;
	f->words = at;
	return true;
}

bool read_text(struct play *p, const char *words, struct bytes actual)
{
	return text_read(&p->text, words, p->names, actual, p->err);
}

/* The frame's bytes in one piece. */
static bool build(struct play *p, const char *at, struct named *f, uint8_t *out, size_t *ret_len)
{
	if (!read_named(p, at, f) || !read_text(p, f->words, bytes_of(NULL, 0)))
		return false;
	if (p->text.len > BODY_MAX)
		return err_set(p->err, ERR_INPUT, "a payload of %zu bytes", p->text.len);
	channel_header(&p->channel, out, f->type, f->flags, f->stream, p->text.len);
	memcpy(out + HEADER, p->text.byte, p->text.len);
	out[HEADER + p->text.len] = END;
	*ret_len = HEADER + p->text.len + 1;
	return true;
}

static uint8_t frame[HEADER + BODY_MAX + 1];

bool do_send(struct play *p, const char *at)
{
	struct named f;
	size_t len;

	if (!build(p, at, &f, frame, &len) || !channel_write(&p->channel, frame, len, p->err))
		return false;
	channel_sent(&p->channel, f.type, f.stream, bytes_of(frame + HEADER, len - HEADER - 1));
	return true;
}

/* N > FRAME: sends its first N bytes, then all that follows byte N. */
static bool send_parts(struct play *p, const char *at, bool rest)
{
	unsigned long count;
	struct named f;
	size_t len;

	if (!read_count(p, &at, &count) || !build(p, at + (*at == '>'), &f, frame, &len))
		return false;
	if (count > len || (rest && count == len))
		return err_set(p->err, ERR_INPUT, "the frame has only %zu bytes", len);
	return channel_write(&p->channel, frame, count, p->err) &&
	       (!rest || channel_write(&p->channel, frame + count + 1, len - count - 1, p->err));
}

bool do_cut(struct play *p, const char *at)
{
	return send_parts(p, at, false);
}

bool do_drop(struct play *p, const char *at)
{
	return send_parts(p, at, true);
}

bool do_slowly(struct play *p, const char *at)
{
	struct named f;
	size_t len;

	at = skip_blanks(at);
	if (!build(p, at + (*at == '>'), &f, frame, &len))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!channel_write(&p->channel, frame + i, 1, p->err))
			return false;
	return true;
}

bool do_raw(struct play *p, const char *at)
{
	return read_text(p, at, bytes_of(NULL, 0)) &&
	       channel_write(&p->channel, p->text.byte, p->text.len, p->err);
}

/* fill STREAM N: so many zeros, within the credit. */
bool do_fill(struct play *p, const char *at)
{
	unsigned long left;
	struct stream *s;
	uint32_t stream;
	char line[64];

	if (!read_stream(p, &at, &stream) || !read_count(p, &at, &left))
		return false;
	s = channel_stream(&p->channel, stream);
	while (left) {
		size_t n = left < BODY_MAX ? left : BODY_MAX;

		if (n > s->may_go)
			n = (size_t)s->may_go;
		if (!n) {
			if (!channel_read(&p->channel, p->err))
				return false;
			continue;
		}
		(void)snprintf(
			line, sizeof(line), "DATA %u/%u zeros=%zu", stream >> 2, stream & 3, n);
		if (!do_send(p, line))
			return false;
		left -= n;
	}
	return true;
}
