/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames on a byte pipe that knows no connections.
 *
 * How it works. A frame is a header of 24 bytes, a payload and an end byte:
 *
 *	magic(4) type(2) flags(2) stream(4) length(4) tag(4) crc(4) payload(length) end(1)
 *
 * all big-endian; crc is the CRC-32 of the 20 bytes before it. The tag names the session: the first
 * four bytes of its nonce. The inbox judges the length before it waits for a payload, and skips
 * bytes one by one until a header is sound, so that stale and torn bytes cost nothing but
 * themselves.
 *
 * A HELLO has no tag, no stream, no flags and a fixed length: its header is always the same 24
 * bytes. The inbox finds those at any position, even inside a payload that it waits for; then all
 * that came before was torn and is dropped. In return no sender lets these 24 bytes stand inside
 * a payload: streams are cut there (hello_split), other messages that hold them are refused.
 *
 * A torn frame can look whole before the HELLO behind it is: its last bytes are then the first of
 * that header, which may be all that came. The end byte occurs nowhere in that header, so such a
 * frame lacks it and is dropped.
 */
#ifndef FRAME_H
#define FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "limits.h"
#include "wire.h"

#define FRAME_MAGIC 0x9be3d50au
#define FRAME_END   0x65 /* in no byte of a HELLO's header */

#define FRAME_EOF 1u /* flag of DATA: nothing follows on this stream */

struct frame {
	uint16_t type; /* enum message, or a number we do not know */
	uint16_t flags;
	uint32_t stream; /* id * 4 + part, or 0 */
	uint32_t tag;
	struct bytes body; /* borrowed: valid until the inbox is touched again */
};

/* Writes the header of a frame; body.len bytes and FRAME_END belong behind it. */
void frame_put_header(uint8_t out[FRAME_HEADER], const struct frame *f);

/* Writes a whole frame, and returns its size: FRAME_OVERHEAD and the payload. The payload may be
 * in its place already; of NULL no byte is written. */
size_t frame_put(uint8_t *out, const struct frame *f);

/* How many bytes of data may go into one payload before the header of a HELLO would stand whole
 * in it; len when it does not occur. At least 1 for len > 0. */
size_t hello_split(const uint8_t *data, size_t len);

/* Bytes as they arrive, whole frames as they complete. No heap; zeroed is empty. */
struct inbox {
	size_t at, len;	  /* unread bytes are buf[at..len) */
	size_t dirty;	  /* buf[dirty..] was never written, or wiped */
	size_t clean;	  /* no HELLO begins in buf[at + 1..clean) */
	uint64_t skipped; /* bytes that belonged to no sound frame, ever */
	uint8_t buf[2 * FRAME_MAX];
};

/* Where the next bytes go, and how many fit: at least one frame minus what waits. */
uint8_t *inbox_space(struct inbox *in, size_t *ret_size);
void inbox_filled(struct inbox *in, size_t n);

/* Takes the next whole frame out. False: more bytes are needed. */
bool inbox_next(struct inbox *in, struct frame *ret_frame);

void inbox_clear(struct inbox *in);

/* Overwrites the bytes that were taken out. */
void inbox_wipe(struct inbox *in);

#endif
