/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's end of a channel to an agent under test: frames, credit and streams.
 *
 * It is written from docs/protocol.md alone and shares no framing with protocol/. What breaks the
 * rules of every frame (a foreign tag, bytes beyond the credit, a grant beyond the window, torn
 * bytes in a session) is a failure wherever it happens.
 */
#ifndef CHANNEL_H
#define CHANNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "err.h"
#include "wire.h"

#define HEADER	    24
#define END	    0x65 /* the byte behind each payload */
#define BODY_MAX    65536
#define WINDOW	    262144
#define STREAMS	    64
#define WAITING_MAX 64

enum { HELLO = 1, EXEC = 2, FAILED = 4, DATA = 5, CREDIT = 6, EXIT = 7, PUT = 10, DONE = 11 };
enum { PING = 16, PONG = 17, QUERY = 22, STATUS = 23, GET = 24 };

/* One direction each: what came and was not looked at yet, and what both sides may still send. */
struct stream {
	uint32_t number;
	uint64_t may_come, may_go;
	bool ended; /* the end flag came */
	size_t len;
	uint8_t data[WINDOW];
};

/* A frame that came, but for DATA and CREDIT. */
struct waiting {
	uint16_t type, flags;
	uint32_t stream;
	struct bytes body; /* owned */
};

struct channel {
	int fd;
	pid_t agent;
	bool open;	   /* the HELLO with this nonce was answered */
	uint8_t nonce[16]; /* of the last HELLO that was sent */
	size_t streams, waiting;
	struct stream *stream[STREAMS];
	struct waiting wait[WAITING_MAX];
	uint64_t skipped; /* bytes of no frame since the last whole one */
	size_t len;
	uint8_t buf[2 * (HEADER + BODY_MAX + 1)];
};

/* Starts the agent with the channel as descriptor 3. */
bool channel_start(struct channel *c, char *const *agent, struct err *err);
/* Closes the channel, ends the agent and all that it left. False: it had died. */
bool channel_stop(struct channel *c, struct err *err);

bool channel_write(struct channel *c, const void *data, size_t len, struct err *err);
/* The header of a frame; those of a HELLO have no tag. */
void channel_header(const struct channel *c, uint8_t out[HEADER], uint16_t type, uint16_t flags,
	uint32_t stream, size_t len);
/* Keeps the books for a frame that is sent whole. */
void channel_sent(struct channel *c, uint16_t type, uint32_t stream, struct bytes body);

/* Reads one frame, with a deadline, and puts it where it belongs. */
bool channel_read(struct channel *c, struct err *err);
/* The oldest frame that waits, read if need be; channel_drop takes it away. */
struct waiting *channel_next(struct channel *c, struct err *err);
void channel_drop(struct channel *c);

struct stream *channel_stream(struct channel *c, uint32_t number);
/* Forgets what waits; streams too unless they are kept for an epoch that goes on. */
void channel_forget(struct channel *c, bool streams);

#endif
