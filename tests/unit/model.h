/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest as the protocol wants it, for random schedules: its commands take input and give output
 * of a known pattern, and it checks every byte and every credit of the host.
 */
#ifndef MODEL_H
#define MODEL_H

#include "credit.h"
#include "link/internal.h"
#include "outbox.h"

#define MODEL_COMMANDS 6
#define MODEL_LENGTH   700000 /* bytes of one stream, at most */

/* A command as its guest sees it, and what the test knows of both sides. */
struct model_command {
	struct command *host; /* NULL once freed */
	bool known;	      /* its EXEC came */
	bool ended;	      /* EXIT was said */
	bool acknowledged;
	bool resting; /* between HELLO and QUERY */
	bool has_input;
	bool cancelled;
	bool end_of_input;
	struct credit in;
	size_t buffered; /* input that its program has not taken */
	uint64_t arrived;
	uint64_t sent[2], length[2]; /* of the outputs */
	uint32_t to_send[2];
};

struct model {
	int fd;
	uint64_t seed, random;
	uint8_t nonce[16], epoch[16];
	bool greeted;	  /* a HELLO came on this channel */
	bool knows;	  /* the host knows what this guest knows of the epoch */
	bool forgetful;	  /* it answers as one without memory, once */
	uint32_t highest; /* id of an EXEC */
	struct model_command commands[MODEL_COMMANDS]; /* id - 1 */
	struct inbox in;
	struct outbox out;
};

void model_init(struct model *m, uint64_t seed);
/* A number below n. */
uint32_t model_random(struct model *m, uint32_t n);
/* Like CHECK, but names the schedule. */
void model_check(const struct model *m, bool holds, const char *what);
/* Bytes of a stream from pos on: MODEL_LENGTH + 65536 - pos are there. */
const uint8_t *model_pattern(uint32_t id, unsigned part, uint64_t pos);

/* The channel is another one now; of what waited in the old one some was still read. */
void model_attach(struct model *m, int fd);
/* Reads up to `max` bytes and answers. */
void model_read(struct model *m, size_t max);
/* Writes up to `max` bytes of what waits. */
void model_write(struct model *m, size_t max);
/* Lets command i do something: take up to `max` bytes of input, say as many of output, or end. */
void model_work(struct model *m, unsigned i, uint32_t max);

#endif
