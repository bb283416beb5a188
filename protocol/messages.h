/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conversation as data: every message, who sends it, when it is legal, and what it holds.
 *
 * put_x and get_x of each message stand side by side in messages.c, fields in the same order. A
 * decoder succeeds only if it consumed its whole payload. Numbers are never used again.
 */
#ifndef MESSAGES_H
#define MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "limits.h"
#include "wire.h"

enum side { FROM_HOST = 1, FROM_GUEST = 2, FROM_EITHER = 3 };

/* States of a session, the same on both sides. */
enum phase {
	GREETING = 1, /* no HELLO has been answered yet */
	OPEN = 2,     /* commands and transfers */
	FROZEN = 4,   /* between PREPARE and HEAL: nothing runs, nothing streams */
	ANY_PHASE = 7,
};

/* clang-format off */
/*        name       code  sent by       legal while */
#define MESSAGES(M)                                    \
	M(HELLO,     1,  FROM_EITHER, ANY_PHASE)       \
	M(EXEC,      2,  FROM_HOST,   OPEN)            \
	M(STARTED,   3,  FROM_GUEST,  OPEN)            \
	M(FAILED,    4,  FROM_GUEST,  OPEN)            \
	M(DATA,      5,  FROM_EITHER, OPEN)            \
	M(CREDIT,    6,  FROM_EITHER, OPEN)            \
	M(EXIT,      7,  FROM_GUEST,  OPEN)            \
	M(CANCEL,    8,  FROM_HOST,   OPEN)            \
	M(ACK,       9,  FROM_HOST,   OPEN)            \
	M(PUT,       10, FROM_HOST,   OPEN)            \
	M(PUT_DONE,  11, FROM_GUEST,  OPEN)            \
	M(PREPARE,   12, FROM_HOST,   OPEN)            \
	M(PREPARED,  13, FROM_GUEST,  OPEN | FROZEN)   \
	M(HEAL,      14, FROM_HOST,   OPEN | FROZEN)   \
	M(HEALED,    15, FROM_GUEST,  OPEN | FROZEN)   \
	M(PING,      16, FROM_HOST,   OPEN | FROZEN)   \
	M(PONG,      17, FROM_GUEST,  OPEN | FROZEN)   \
	M(POWEROFF,  18, FROM_HOST,   OPEN | FROZEN)
/* clang-format on */

enum message {
#define M(name, code, side, phase) MSG_##name = code,
	MESSAGES(M)
#undef M
};

/* "EXEC", or "unknown". */
const char *message_name(unsigned code);
bool message_known(unsigned code);
/* Whether this side may send this message now. False for unknown codes. */
bool message_legal(unsigned code, enum side from, enum phase now);

/* One command or transfer has an id from 1 to OPERATION_ID_MAX, chosen by the host. */
enum stream_part { PART_STDIN = 0, PART_STDOUT = 1, PART_STDERR = 2, PART_CONTROL = 3 };

static inline uint32_t stream_of(uint32_t id, enum stream_part part)
{
	return id << 2 | (uint32_t)part;
}

static inline uint32_t stream_id(uint32_t stream)
{
	return stream >> 2;
}

static inline enum stream_part stream_part(uint32_t stream)
{
	return (enum stream_part)(stream & 3);
}

/* DATA: the payload is the bytes of the stream; FRAME_EOF ends it. ACK, CANCEL: empty payload.
 * Messages about an operation as a whole carry stream_of(id, PART_CONTROL). */

/*
 * HELLO, either way. The host sends a fresh nonce and an epoch that is new for each start or
 * restore of a machine. The guest's answer repeats both; unasked, when it opens the port, it sends
 * one with a zero nonce: "I am here, greet me". boot_id is the guest kernel's and zero from the
 * host.
 */
struct msg_hello {
	uint16_t generation; /* PROTOCOL_GENERATION */
	uint32_t build;	     /* CRC-32 of the version text of the sender */
	uint8_t nonce[16];
	uint8_t epoch[16];
	uint8_t boot_id[16];
};
#define HELLO_BODY (2 + 4 + 16 + 16 + 16 + 4) /* the last four: CRC-32 of the rest */

enum exec_flag {
	EXEC_STDIN = 1,	     /* stdin is a stream; without it the null device */
	EXEC_AGENT_ROOT = 2, /* in the agent's own root instead of the system's */
	EXEC_FLAGS = 3,
};

/* Strings hold no NUL. An empty dir is "/". The path to run is argv[0], searched in the PATH of
 * env when it has no slash. */
struct msg_exec {
	uint16_t flags;	      /* enum exec_flag */
	uint32_t deadline_ms; /* TERM to the whole group after this; 0: never */
	uint32_t grace_ms;    /* KILL this long after TERM, also on CANCEL */
	struct bytes dir;
	uint16_t argc, envc;
	struct bytes argv[ARGS_MAX];
	struct bytes env[ENV_MAX];
};

enum fail_kind {
	FAIL_NOT_FOUND = 1,	 /* no such program */
	FAIL_NOT_EXECUTABLE = 2, /* there, but it can't be run */
	FAIL_DIRECTORY = 3,	 /* the directory can't be entered */
	FAIL_RESOURCES = 4,	 /* no process, descriptor or memory to be had */
	FAIL_NOT_READY = 5,	 /* the system's root is not mounted yet */
	FAIL_BUSY = 6,		 /* OPERATIONS_MAX are under way, or the id is taken */
	FAIL_REQUEST = 7,	 /* the request makes no sense */
	FAIL_FILE = 8,		 /* a file can't be written */
};

struct msg_failed {
	uint16_t kind;	/* enum fail_kind */
	uint32_t error; /* errno in the guest, or 0 */
	struct bytes text;
};

/* STARTED: the process id in the guest. */
struct msg_started {
	uint32_t pid;
};

/* CREDIT, on a stream: that many more bytes may be sent. */
struct msg_credit {
	uint32_t bytes;
};

enum exit_flag { EXIT_SIGNALLED = 1, EXIT_TIMED_OUT = 2, EXIT_CANCELLED = 4, EXIT_FLAGS = 7 };

/* EXIT: follows the direct child's end and a short drain of what it wrote. */
struct msg_exit {
	uint16_t flags;			     /* enum exit_flag */
	uint16_t value;			     /* exit code, or signal number */
	uint64_t stdout_bytes, stderr_bytes; /* sent in DATA before this */
	uint32_t left_behind;		     /* processes of its group that still run */
};

/* PUT: a file in the agent's own root; its bytes follow on PART_STDIN. */
struct msg_put {
	uint32_t mode;	   /* permission bits */
	uint64_t size;	   /* exactly */
	struct bytes path; /* absolute; parents are made */
};

struct msg_put_done {
	uint64_t size;
};

struct msg_prepare {
	uint32_t deadline_ms; /* the freeze ends by itself after this */
};

struct msg_prepared {
	uint32_t error; /* errno of the freeze, 0 when frozen */
};

struct msg_heal {
	uint64_t realtime_ns; /* wall clock to set, 0: leave it */
	struct bytes seed;    /* for the random number generator, may be empty */
};

struct msg_healed {
	uint32_t error; /* errno of the first step that failed, or 0 */
};

/* PING and PONG: the token comes back. */
struct msg_ping {
	uint64_t token;
};

#define MESSAGE_CODEC(name)                                                                        \
	void put_##name(struct writer *w, const struct msg_##name *m);                             \
	bool get_##name(struct bytes body, struct msg_##name *ret_message)

/* Decoders: bytes in the result are borrowed from body. False: not a well-formed message. */
MESSAGE_CODEC(hello);
MESSAGE_CODEC(exec);
MESSAGE_CODEC(failed);
MESSAGE_CODEC(started);
MESSAGE_CODEC(credit);
MESSAGE_CODEC(exit);
MESSAGE_CODEC(put);
MESSAGE_CODEC(put_done);
MESSAGE_CODEC(prepare);
MESSAGE_CODEC(prepared);
MESSAGE_CODEC(heal);
MESSAGE_CODEC(healed);
MESSAGE_CODEC(ping);

/* The tag of the frames of a session. */
uint32_t session_tag(const uint8_t nonce[16]);

#endif
