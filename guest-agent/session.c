/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the current session, on their way into the outbox. */
#include "session.h"

#define ROOM 4 /* the most answers that one message, or one turn of one command, makes */

void session_clear(struct session *s)
{
	outbox_clear(&s->out);
	s->phase = GREETING;
	s->tail_len = 0;
}

bool session_room(const struct session *s)
{
	return outbox_control_room(&s->out, ROOM);
}

void session_send(struct session *s, enum message type, uint32_t stream, struct bytes body)
{
	const struct frame f = {
		.type = (uint16_t)type,
		.stream = stream,
		.tag = type == MSG_HELLO ? 0 : s->tag,
		.body = body,
	};

	/* False only for a body that imitates a HELLO, and none of ours can. */
	(void)outbox_control(&s->out, &f);
}

void session_fail(struct session *s, uint32_t id, enum fail_kind kind, int error, const char *text)
{
	SEND(s, FAILED, failed, stream_of(id, PART_CONTROL), .kind = (uint16_t)kind,
		.error = (uint32_t)error, .text = bytes_of(text, strnlen(text, TEXT_MAX)));
}

/* Sends up to the next place where the bytes must be cut; the rest becomes the tail. */
static void send_bulk(struct session *s, uint8_t *data, size_t len, bool eof)
{
	size_t cut = hello_split(data, len);

	s->tail_at = cut + FRAME_OVERHEAD - FRAME_HEADER;
	s->tail_len = len - cut;
	s->tail_eof = eof;
	if (s->tail_len)
		memmove(data + s->tail_at, data + cut, s->tail_len);
	outbox_bulk(&s->out, &(struct frame){ .type = MSG_DATA,
				     .flags = eof && !s->tail_len ? FRAME_EOF : 0,
				     .stream = s->bulk_stream,
				     .tag = s->tag,
				     .body = bytes_of(data, cut) });
}

uint8_t *session_bulk_space(struct session *s)
{
	uint8_t *space = outbox_bulk_space(&s->out);
	size_t len = s->tail_len;

	if (!space || !len)
		return space;
	memmove(space, space + s->tail_at, len);
	send_bulk(s, space, len, s->tail_eof);
	return NULL;
}

void session_bulk(struct session *s, uint32_t stream, size_t len, bool eof)
{
	s->bulk_stream = stream;
	send_bulk(s, outbox_bulk_space(&s->out), len, eof);
}

bool session_quiet(const struct session *s)
{
	return !s->out.bulk_len && !s->tail_len;
}

bool session_carries(const struct session *s, uint32_t id)
{
	return !session_quiet(s) && stream_id(s->bulk_stream) == id;
}

void session_flush(struct session *s, struct port *port)
{
	size_t n;

	do {
		/* A lone answer that goes out was in nobody's way. */
		const bool in_the_way = !session_quiet(s) || !session_room(s);

		n = port_write(port, outbox_peek(&s->out));
		outbox_wrote(&s->out, n);
		s->moved = s->moved || (n && in_the_way);
		/* The slot may be free now: the tail goes next. */
		if (s->tail_len)
			(void)session_bulk_space(s);
	} while (n);
}
