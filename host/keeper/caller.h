/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the switchboard share: a caller and his operations.
 *
 * Like a session, a caller has no queue of things to say but state, which caller_pump turns into
 * frames as his outbox takes them. Nothing is freed in the middle of a call: a caller who is `over`
 * goes in the loop's next turn.
 */
#ifndef CALLER_H
#define CALLER_H

#include "base/buf.h"
#include "credit.h"
#include "door.h"
#include "link/relay.h"
#include "outbox.h"
#include "switchboard.h"

#define LEGS_MAX  OPERATIONS_MAX /* of one caller; a session has no more */
#define PINGS_MAX 16 /* of one caller, without an answer: then he is not read any more */

/* Output of one operation on its way to the caller. */
struct leg_output {
	struct buf waits; /* from `at` on */
	size_t at;
	uint32_t to_send; /* credit */
	bool end, end_said;
};

/* One operation of a caller's: his id, and the guest's. */
struct leg {
	struct caller *caller;
	uint32_t id;
	struct command *command; /* NULL: refused here */
	struct leg_output output[2];
	struct credit input; /* what the caller may still send */
	uint32_t grant;	     /* to announce */
	bool has_input, input_ended;
	bool started, started_said;
	uint32_t pid;
	uint16_t end; /* MSG_FAILED, MSG_EXIT or MSG_DONE; 0: not yet */
	bool end_said;
	struct buf end_body;
};

struct ping {
	uint64_t token, guest_token; /* the caller's, ours */
	bool sent, answered;
	struct msg_pong pong;
};

struct caller {
	struct switchboard *board;
	struct source source;
	enum phase phase;
	bool asks; /* his HELLO waits for its answer */
	bool over;
	bool held_back; /* frames of his wait until a PING is answered */
	uint8_t nonce[16], epoch[16];
	uint32_t tag;
	unsigned greetings; /* of the guest, when it answered him */

	uint32_t last_id;
	struct leg *legs[LEGS_MAX]; /* by ascending id */
	unsigned n_legs, turn;
	struct ping pings[PINGS_MAX];
	unsigned n_pings;
	uint64_t last_ping;	 /* token of the last one that the guest was sent */
	unsigned ping_greetings; /* of that guest */

	struct inbox in;
	struct outbox out;
};

struct switchboard {
	struct loop *loop;
	struct door door;
	struct session *session;
	uint64_t last_pong; /* token of the last one */
	struct caller *callers[CALLERS_MAX];
};

/* caller.c */
struct caller *caller_new(struct switchboard *b, int fd);
void caller_free(struct caller *c);
/* The guest that he spoke to is gone. */
void caller_start_anew(struct caller *c);
/* Says what there is to say. */
void caller_flush(struct caller *c);

/* caller_judge.c */
/* Takes one frame of his session. NULL, or how he broke the protocol. */
const char *caller_judge(struct caller *c, const struct frame *untrusted);

/* caller_pump.c */
/* Queues what may be said now, as far as there is room. */
void caller_pump(struct caller *c);

/* leg.c */
/* Begins it in the guest; what can't begin fails. NULL when the body is not well-formed. */
struct leg *leg_start(struct caller *c, uint32_t id, uint16_t type, struct bytes untrusted_body);
struct leg *leg_find(const struct caller *c, uint32_t id);
/* Out of the table; what runs is cancelled. */
void leg_free(struct leg *l);

#endif
