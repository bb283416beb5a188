/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of host/link share: the session, its operations and its requests.
 *
 * How it works. An operation is a command or a transfer that the guest may still speak about; it
 * stands in the session's table from its start to its end. What must be sent for it is not a
 * queue but state (opener, cancel, grants, input), and session_pump turns as much of that into
 * frames as the outbox takes. So nothing is lost when the outbox is full, and nothing grows.
 *
 * Its caller may free a command before it has ended. It is then forgotten: the guest is told to
 * cancel it, its output is thrown away and paid for, and the session frees it at its end.
 */
#ifndef INTERNAL_H
#define INTERNAL_H

#include "credit.h"
#include "frame.h"
#include "outbox.h"
#include "session.h"

/* The body of an EXEC or PUT: it must fit into the empty queue of control frames. */
#define OPENER_MAX (CONTROL_QUEUE - FRAME_HEADER)

enum operation_state { UNSENT, SENT, STARTED };

/* One direction of output. */
struct output {
	struct credit credit;
	uint64_t bytes; /* that came, ever */
	size_t held;	/* bytes the caller has not used up */
	uint32_t grant; /* to announce */
};

struct command {
	struct session *session; /* NULL once ended */
	uint32_t id;
	uint16_t type; /* of the opener: MSG_EXEC or MSG_PUT */
	enum operation_state state;
	uint8_t *opener; /* owned; NULL once it is queued */
	size_t opener_len;

	bool has_stdin, eof_sent;
	const uint8_t *input; /* borrowed; what is still to be sent */
	size_t input_len;
	uint32_t to_send; /* credit for it */

	struct output output[2]; /* stdout, stderr */
	size_t (*take)(
		void *self, enum stream_part part, const uint8_t *untrusted_data, size_t len);
	void *self;

	uint64_t put_size; /* of a PUT */

	bool cancel; /* to be sent */
	bool forgotten;
	struct command_result result;
};

/* Requests that have one answer each, and no id: answers come in the order of the requests. */
enum request { REQUEST_PREPARE, REQUEST_HEAL, REQUEST_PING, REQUESTS };

struct session {
	struct loop *loop;
	struct source source;
	enum phase phase;
	bool stopping; /* PREPARE is under way: nothing else but requests may be sent */
	char broken[sizeof(((struct err *)0)->text)]; /* why, or empty */

	uint8_t nonce[16], epoch[16], boot_id[16];
	uint32_t tag;
	int64_t greet_at;
	unsigned greetings; /* that were answered */
	unsigned attempt;   /* counts greetings that were sent: tells one life from the next */

	uint32_t next_id;
	struct command *operations[OPERATIONS_MAX]; /* by ascending id */
	uint32_t acks[OPERATIONS_MAX];		    /* ids of ended ones, to be sent */
	unsigned n_operations, n_acks;
	unsigned turn; /* whose input goes next */

	struct {
		unsigned owed;	/* answers that must still come */
		uint32_t error; /* in the last one */
	} requests[REQUESTS];
	uint64_t ping_token; /* of the last one sent */

	struct inbox in;
	struct outbox out;
};

/* session.c */
void session_break(struct session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* False, and why, unless a guest is there. */
bool session_usable(const struct session *s, struct err *err);
/* Writes what the socket takes. */
void session_flush(struct session *s);
void random_fill(void *out, size_t len);

/* judge.c */
/* Takes one frame of the guest's session. NULL, or how it broke the protocol. */
const char *judge_frame(struct session *s, const struct frame *untrusted);

/* operation.c */
/* A new one with an id of its own, in the table. Takes the opener. NULL when that can't be. */
struct command *operation_new(
	struct session *s, uint16_t type, uint8_t *opener, size_t opener_len, struct err *err);
/* NULL when it is not there, or no more. */
struct command *operation_find(const struct session *s, uint32_t id);
/* Its end: out of the table. The guest keeps an EXIT or PUT_DONE until it is acknowledged. Frees
 * the operation when it is forgotten. */
void operation_end(struct command *c, bool acknowledge);
/* All of them are COMMAND_LOST, and nothing is owed to the guest. */
void operations_lose(struct session *s, const char *why);
/* Bytes left our hands: pays back. */
void operation_consumed(struct command *c, enum stream_part part, size_t len);
bool operation_ended(const void *command);
/* Queues what may be sent now, as far as there is room. */
void session_pump(struct session *s);

#endif
