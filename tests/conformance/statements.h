/* SPDX-License-Identifier: Apache-2.0 */
/* A test while it is played, and what its statements do. `at` is what stands behind the word. */
#ifndef STATEMENTS_H
#define STATEMENTS_H

#include "play.h"

struct play {
	const struct line *lines;
	size_t n, at;
	struct text_names *names;
	struct channel channel;
	uint8_t epoch[16]; /* of the last HELLO */
	bool answered;	   /* there was an answer in it */
	uint8_t given_up;  /* how often the agent did: epochs are others then */
	bool skipped;	   /* the agent can't do what the rest is about */
	uint64_t pings;
	struct text text;
	struct err *err;
};

/* A frame as a statement names it: TYPE or TYPE+FLAGS, STREAM as 0 or ID/PART, and its payload. */
struct named {
	uint16_t type, flags;
	uint32_t stream;
	const char *words;
};

const char *skip_blanks(const char *at);
/* A number, or {n} for the turn of the loop. */
bool read_count(struct play *p, const char **at, unsigned long *ret_count);
bool read_stream(struct play *p, const char **at, uint32_t *ret_stream);
bool read_named(struct play *p, const char *at, struct named *ret_frame);
/* Words to p->text. */
bool read_text(struct play *p, const char *words, struct bytes actual);

/* say.c */
bool do_send(struct play *p, const char *at);	/* > FRAME */
bool do_cut(struct play *p, const char *at);	/* cut N > FRAME: its first N bytes */
bool do_drop(struct play *p, const char *at);	/* drop N > FRAME: all of it but byte N */
bool do_slowly(struct play *p, const char *at); /* slowly > FRAME: byte by byte */
bool do_raw(struct play *p, const char *at);	/* raw WORDS */
bool do_fill(struct play *p, const char *at); /* fill STREAM N: so many zeros, within the credit */

/* hear.c */
bool do_expect(struct play *p, const char *at);	  /* < FRAME */
bool do_perhaps(struct play *p, const char *at);  /* <? FRAME: may come */
bool do_need(struct play *p, const char *at);	  /* need FRAME: else the rest can't be tested */
bool do_data(struct play *p, const char *at);	  /* <data STREAM WORDS: in any pieces */
bool do_end_of(struct play *p, const char *at);	  /* <end STREAM: the end flag, no more bytes */
bool do_greeting(struct play *p, const char *at); /* <greeting: the session is over */
bool do_quiet(struct play *p, const char *at);	  /* quiet: nothing comes before a PONG */

#endif
