/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames in, bytes out, for a descriptor that takes what it likes.
 *
 * How it works. Control frames queue in a bounded buffer and overtake bulk frames: a bulk frame is
 * taken only while none waits, and is built only when the one before it is gone. So a flood of
 * bulk delays a control frame by one frame at most, and nothing grows. A frame whose first bytes
 * are out is always finished first.
 */
#ifndef OUTBOX_H
#define OUTBOX_H

#include "frame.h"

struct outbox {
	size_t control_at, control_len; /* waiting: control[control_at..control_len) */
	size_t bulk_at, bulk_len;	/* 0 and 0: no bulk frame waits */
	uint8_t control[CONTROL_QUEUE];
	uint8_t bulk[FRAME_MAX];
};

/* Queues a control frame; copies the body. False: no room now, or a body with a HELLO header in it.
 */
bool outbox_control(struct outbox *out, const struct frame *f);
/* Room for that many control frames with bodies of up to 512 bytes. */
bool outbox_control_room(const struct outbox *out, size_t frames);

/* Where the payload of the next bulk frame goes (PAYLOAD_MAX bytes); NULL while one waits. */
uint8_t *outbox_bulk_space(struct outbox *out);
/* The payload is in place, at f->body. */
void outbox_bulk(struct outbox *out, const struct frame *f);

/* The bytes to write next; empty when there is nothing. Borrowed until outbox_wrote. */
struct bytes outbox_peek(const struct outbox *out);
void outbox_wrote(struct outbox *out, size_t n);

void outbox_clear(struct outbox *out);

#endif
