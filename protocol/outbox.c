/* SPDX-License-Identifier: Apache-2.0 */
/* Frames in, bytes out. */
#include "outbox.h"

#include "messages.h"

#define ROOM_PER_FRAME (FRAME_OVERHEAD + 512)

bool outbox_control_room(const struct outbox *out, size_t frames)
{
	return sizeof(out->control) - (out->control_len - out->control_at) >=
	       frames * ROOM_PER_FRAME;
}

bool outbox_control(struct outbox *out, const struct frame *f)
{
	size_t waiting = out->control_len - out->control_at;

	if (waiting + FRAME_OVERHEAD + f->body.len > sizeof(out->control) ||
		hello_split(f->body.data, f->body.len) != f->body.len)
		return false;
	if (out->control_at) {
		memmove(out->control, out->control + out->control_at, waiting);
		out->control_at = 0;
		out->control_len = waiting;
	}
	out->control_len += frame_put(out->control + out->control_len, f);
	return true;
}

uint8_t *outbox_bulk_space(struct outbox *out)
{
	return out->bulk_len ? NULL : out->bulk + FRAME_HEADER;
}

void outbox_bulk(struct outbox *out, const struct frame *f)
{
	out->bulk_at = 0;
	out->bulk_len = frame_put(out->bulk, f);
}

static bool bulk_begun(const struct outbox *out)
{
	return out->bulk_at > 0;
}

struct bytes outbox_peek(const struct outbox *out)
{
	if (out->control_len && !bulk_begun(out))
		return bytes_of(out->control + out->control_at, out->control_len - out->control_at);
	return bytes_of(out->bulk + out->bulk_at, out->bulk_len - out->bulk_at);
}

void outbox_wrote(struct outbox *out, size_t n)
{
	if (out->control_len && !bulk_begun(out)) {
		out->control_at += n;
		if (out->control_at == out->control_len)
			out->control_at = out->control_len = 0;
		return;
	}
	out->bulk_at += n;
	if (out->bulk_at == out->bulk_len)
		out->bulk_at = out->bulk_len = 0;
}

void outbox_clear(struct outbox *out)
{
	out->control_at = out->control_len = out->bulk_at = out->bulk_len = 0;
}
