/* SPDX-License-Identifier: Apache-2.0 */
/* Between the pipes of a child and the streams of the channel, within credit. */
#ifndef PUMP_H
#define PUMP_H

#include "credit.h"
#include "session.h"

/* Bytes for a child's standard input: what the peer may send fits, always. */
struct input {
	int fd; /* to the child, -1: nobody reads any more */
	bool eof;
	struct credit credit;
	uint32_t grant; /* to be announced */
	size_t at, len; /* waiting: len bytes from at on, around the end */
	uint8_t *ring;	/* STREAM_WINDOW bytes, borrowed */
};

/* False: more than was granted, or behind the end. */
bool input_take(struct input *in, struct bytes data, bool eof);
/* Writes what the pipe takes. */
void input_pump(struct input *in);
/* The reader is gone: what comes from now on is thrown away and paid back. */
void input_close(struct input *in);

/* Standard output or error of a child. */
struct output {
	int fd; /* -1: at its end */
	bool readable;
	bool bounded;	 /* only `left` bytes are wanted any more */
	uint32_t left;	 /* valid if bounded */
	uint32_t credit; /* bytes the peer takes */
	uint64_t sent;
};

/* Sends one chunk if there is one and the bulk slot is free. False: nothing was sent. */
bool output_pump(struct output *out, struct session *s, uint32_t stream);
/* From now on only what is in the pipe at this moment. */
void output_bound(struct output *out);
/* All that was wanted has been sent. */
bool output_drained(const struct output *out);
void output_close(struct output *out);

#endif
