/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of host/link share: the session, its operations and its requests.
 *
 * How it works. An operation is a command or a transfer that the guest may still speak about; it
 * stands in the session's table from its start to its end. What must be sent for it is not a
 * queue but state (opener, cancel, grants, input), and session_pump turns as much of that into
 * frames as the outbox takes. So nothing is lost when the outbox is full, and nothing grows.
 *
 * A channel that ends and is attached again leaves the operations in the table. Each that was sent
 * is then `asking`: nothing goes out for it but a QUERY, and nothing is taken but the STATUS that
 * says what got lost (resume.c).
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

/* The body of an opener (EXEC, PUT, GET): it must fit into the empty queue of control frames. */
#define OPENER_MAX (CONTROL_QUEUE - FRAME_OVERHEAD)

/* Input that waits for one operation with stream_input, at most, unless it is relayed. */
#define INPUT_BUFFER 65536
#define SIGNALS	     64

enum operation_state { UNSENT, SENT, STARTED };

/* Whether the guest knows of the operation, after the channel was attached again. */
enum asking { SETTLED, TO_ASK, ASKED };

/* One direction of output. */
struct output {
	struct credit credit;
	uint64_t bytes;	  /* that came, ever */
	uint64_t lost;	  /* that were sent and did not come */
	uint64_t at_risk; /* the most that may have been under way when channels ended */
	size_t held;	  /* bytes the caller has not used up */
	uint32_t grant;	  /* to announce */
	bool ended;	  /* the end flag came */
};

/* What goes to the operation: a piece of the caller's memory, or what it gives by and by. */
struct input {
	bool open;	     /* the guest takes input at all */
	bool end;	     /* nothing comes after what waits */
	bool end_sent;	     /* nothing is to be sent any more */
	bool gone;	     /* whose input it was has forgotten it */
	bool wants_room;     /* its giver is told when there is room */
	uint64_t sent;	     /* bytes, ever; those that got lost not counted */
	uint64_t arrived;    /* of these, when a STATUS last told */
	uint32_t to_send;    /* credit */
	const uint8_t *next; /* what waits */
	size_t len;
	size_t room;	 /* for what waits in the buffer */
	uint8_t *buffer; /* owned, what waits and what went last. NULL: the caller's memory */
	void (*wanted)(void *); /* with `self` of the command */
};

struct command {
	struct session *session; /* NULL once ended */
	uint32_t id;
	uint16_t type; /* of the opener: MSG_EXEC, MSG_PUT or MSG_GET */
	enum operation_state state;
	enum asking asking;
	bool unsure;	 /* a STATUS said that it started; STARTED itself may still come */
	uint8_t *opener; /* owned; NULL once the guest has it for certain */
	size_t opener_len;

	struct input input;
	struct output output[2]; /* stdout, stderr */
	size_t (*take)(
		void *self, enum stream_part part, const uint8_t *untrusted_data, size_t len);
	/* Of a relayed one (relay.h): each frame about it, when it was judged. NULL: of ours */
	void (*told)(void *self, const struct frame *checked);
	void *self;

	bool pty, resize; /* resize: to be sent */
	bool resized;	  /* ever */
	uint16_t rows, columns;
	uint8_t signals[SIGNALS]; /* to be sent, in this order, each number once */
	unsigned n_signals;
	bool cancel;	/* to be sent */
	bool cancelled; /* ever */
	bool forgotten;
	uint64_t output_max;
	struct msg_done done; /* of a transfer that went well */
	struct command_result result;
};

/* Requests that have one answer each, and no id: answers come in the order of the requests. */
enum request { REQUEST_PREPARE, REQUEST_HEAL, REQUEST_PING, REQUESTS };

struct session {
	struct loop *loop;
	struct source source;
	enum phase phase;
	bool keep;     /* the end of the channel is not the end of the session */
	bool stopping; /* PREPARE is under way: nothing else but requests may be sent */
	char broken[sizeof(((struct err *)0)->text)];	/* why, or empty */
	char detached[sizeof(((struct err *)0)->text)]; /* why there is no channel, or empty */

	uint8_t nonce[16], epoch[16], boot_id[16];
	uint32_t tag;
	int64_t greet_at;
	unsigned greetings; /* that were answered */
	unsigned attempt;   /* counts lives of the channel and greetings: tells one from the next */
	bool opened;	    /* a guest has answered in this epoch */

	uint32_t next_id;
	struct command *operations[OPERATIONS_MAX]; /* by ascending id */
	uint32_t acks[OPERATIONS_MAX];		    /* ids of ended ones, to be sent */
	uint32_t acked[OPERATIONS_MAX];		    /* sent last, a ring: they may have got lost */
	unsigned n_operations, n_acks, n_acked;
	unsigned ack_again; /* of the last ones */
	uint32_t fed;	    /* id of whose input went last */

	struct {
		unsigned owed;	/* answers that must still come */
		uint32_t error; /* in the last one */
	} requests[REQUESTS];
	uint64_t ping_token;				    /* of the last one sent */
	struct guest_health health;			    /* in the last PONG */
	void (*pong)(void *self, const struct msg_pong *m); /* hears each. NULL: nobody */
	void *pong_self;

	struct inbox in;
	struct outbox out;
};

/* session.c */
void session_break(struct session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* False, and why, unless a guest is there. */
bool session_usable(const struct session *s, struct err *err);
/* Writes what the socket takes. */
void session_flush(struct session *s);

/* greeting.c */
/* A HELLO with a fresh nonce, before all that is to be sent. */
void session_greet(struct session *s);
/* Takes a HELLO of the guest's, or a torn one. */
void greeting_take(struct session *s, struct bytes untrusted_body);
/* No session: nothing that was under way will arrive, and no answer will come. */
void session_hush(struct session *s);
void random_fill(void *out, size_t len);

/* judge.c */
/* Takes one frame of the guest's session. NULL, or how it broke the protocol. */
const char *judge_frame(struct session *s, const struct frame *untrusted);

/* operation.c */
/* A new one with an id of its own, in the table. Takes the opener. waits: in a frozen guest it
 * begins after the HEAL. NULL when that can't be. */
struct command *operation_new(struct session *s, uint16_t type, uint8_t *opener, size_t opener_len,
	bool waits, struct err *err);
/* NULL when it is not there, or no more. */
struct command *operation_find(const struct session *s, uint32_t id);
/* Its end: out of the table. The guest keeps an EXIT or DONE until it is acknowledged. Frees the
 * operation when it is forgotten. */
void operation_end(struct command *c, bool acknowledge);
/* Its end as COMMAND_LOST. */
void operation_lose(struct command *c, const char *why, bool acknowledge);
/* All of them are COMMAND_LOST, and nothing is owed to the guest. */
void operations_lose(struct session *s, const char *why);
/* Bytes left our hands: pays back. */
void operation_consumed(struct command *c, enum stream_part part, size_t len);
bool operation_ended(const void *command);

/* pump.c */
/* Queues what may be sent now, as far as there is room. */
void session_pump(struct session *s);
/* A control frame about an operation. False: no room now. */
bool pump_queue(
	struct session *s, uint16_t type, uint32_t id, enum stream_part part, struct bytes body);

/* input.c */
void input_borrow(struct input *in, const void *data, size_t len);
void input_stream(struct input *in, void (*wanted)(void *self));
/* Nothing more is sent. */
void input_release(struct input *in);
/* Appends to what waits. Returns how many bytes had room. */
size_t input_add(struct input *in, const void *data, size_t len);
bool input_waits(const struct input *in);
/* Copies the next piece to space; says how long it is. */
size_t input_next(struct input *in, uint8_t *space);
/* Calls those who wait for room. */
void inputs_call(struct session *s);
/* So many bytes the guest has had for certain: by its own words, or as it paid for them. */
uint64_t input_paid(const struct input *in);
/* The guest has had that many bytes, no less than input_paid, and takes that many more: what got
 * lost is sent again. */
void input_rewind(struct input *in, uint64_t arrived, uint32_t credit);

/* resume.c */
/* The guest has answered after the channel was attached again. held: it knew the epoch. */
void resume_operations(struct session *s, bool held);
bool resume_query(struct command *c);
const char *resume_status(struct command *c, const struct frame *untrusted);

/* transfer.c */
/*
 * A GET or PUT with its tree stream, which no call here looks into. It is a command in all but its
 * opener: command_input and command_input_end for a PUT, `output` (always PART_STDOUT) for a GET,
 * then loop_until operation_ended, command_result (COMMAND_EXITED when DONE came, whose counts are
 * checked against the stream and stand in ->done), command_free.
 */
struct transfer_spec {
	uint16_t type;	   /* MSG_PUT or MSG_GET */
	uint16_t flags;	   /* enum tree_flag */
	const char *path;  /* absolute, in the guest */
	const void *input; /* PUT: the whole stream, borrowed until the end. NULL: it comes by */
	size_t input_len;  /* command_input, when input_wanted was called */
	void (*input_wanted)(void *self);
	size_t (*output)(
		void *self, enum stream_part part, const uint8_t *untrusted_data, size_t len);
	void *self;
};
struct command *transfer_start(
	struct session *s, const struct transfer_spec *spec, struct err *err);
/* Whether it went well, and if not, why: ERR_INPUT for a file that is not there or can't be read or
 * written, else ERR_PEER. */
bool transfer_succeeded(const struct command *c, struct err *err);

#endif
