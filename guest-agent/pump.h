/* SPDX-License-Identifier: Apache-2.0 */
/* Between the pipes of a child and the streams of the channel, within credit. */
#ifndef PUMP_H
#define PUMP_H

#include "credit.h"
#include "session.h"

/* Bytes for a child's standard input: what the peer may send fits, always. */
struct input {
	int fd;	       /* to the child, -1: nobody reads any more */
	bool awaited;  /* fd is to come: bytes wait for it */
	bool eof;      /* nothing follows */
	bool terminal; /* the end is a character */
	bool secret;   /* bytes that are written leave no trace */
	uint64_t came; /* bytes, ever */
	struct credit credit;
	uint32_t grant; /* to be announced */
	size_t at, len; /* waiting: len bytes from at on, around the end */
	uint8_t *ring;	/* STREAM_WINDOW bytes, borrowed */
};

/* False: more than was granted, or bytes behind the end. */
bool input_take(struct input *in, struct bytes data, bool eof);
/* Something is to be written. */
bool input_waits(const struct input *in);
/* Writes what the child takes. */
void input_pump(struct input *in);
/* The reader is gone: what comes from now on is thrown away and paid back. */
void input_close(struct input *in);
/* All bytes that the peer may send from now on, whatever was announced before. */
uint32_t input_credit(struct input *in);

/* Standard output or error of a child. */
struct output {
	int fd; /* -1: at its end */
	bool terminal;
	bool readable;
	bool bounded;	 /* only `left` bytes are wanted any more */
	uint32_t left;	 /* valid if bounded */
	uint32_t credit; /* bytes the peer takes */
	uint64_t max;	 /* bytes that are wanted, 0: all */
	uint64_t sent, cut;
};

/* Worth a look when it can be read. */
bool output_waits(const struct output *out);
/* Sends one chunk if there is one and the bulk slot is free, or drops one that is not wanted.
 * False: neither. */
bool output_pump(struct output *out, struct session *s, uint32_t stream);
/* From now on only what is in the pipe at this moment. */
void output_bound(struct output *out);
/* All that was wanted has been sent. */
bool output_drained(const struct output *out);
void output_close(struct output *out);

#endif
