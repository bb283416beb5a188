/* SPDX-License-Identifier: Apache-2.0 */
/* What goes out in one session, and under which tag. */
#ifndef SESSION_H
#define SESSION_H

#include "messages.h"
#include "outbox.h"
#include "port.h"

struct session {
	enum phase phase;
	uint32_t tag;
	uint32_t bulk_stream;	  /* whose bytes are in the bulk slot */
	size_t tail_at, tail_len; /* the part of them that needs a frame of its own */
	bool tail_eof;
	bool moved; /* room appeared for others since the owner last set it to false */
	struct outbox out;
};

/* Back to the greeting: nothing waits any more. */
void session_clear(struct session *s);

/* Room for the answers to one message. Ask before session_send. */
bool session_room(const struct session *s);
void session_send(struct session *s, enum message type, uint32_t stream, struct bytes body);

/* Encodes a message and queues it: SEND(s, EXIT, exit, stream, .value = 1). */
#define SEND(s, CODE, codec, stream, ...)                                                          \
	do {                                                                                       \
		uint8_t body_[512];                                                                \
		struct writer w_ = writer_of(body_, sizeof(body_));                                \
		put_##codec(&w_, &(struct msg_##codec){ __VA_ARGS__ });                            \
		session_send(s, MSG_##CODE, stream, bytes_of(body_, (size_t)(w_.at - body_)));     \
	} while (0)

void session_fail(struct session *s, uint32_t id, enum fail_kind kind, int error, const char *text);

/* Where up to BULK_CHUNK bytes of a stream go; NULL while others wait. */
uint8_t *session_bulk_space(struct session *s);
void session_bulk(struct session *s, uint32_t stream, size_t len, bool eof);
/* Bytes of this operation wait here: control frames would overtake them. */
bool session_carries(const struct session *s, uint32_t id);
/* No stream has bytes waiting here. */
bool session_quiet(const struct session *s);

/* Writes what the port takes now. */
void session_flush(struct session *s, struct port *port);

#endif
