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
	M(DONE,      11, FROM_GUEST,  OPEN)            \
	M(PREPARE,   12, FROM_HOST,   OPEN)            \
	M(PREPARED,  13, FROM_GUEST,  OPEN | FROZEN)   \
	M(HEAL,      14, FROM_HOST,   OPEN | FROZEN)   \
	M(HEALED,    15, FROM_GUEST,  OPEN | FROZEN)   \
	M(PING,      16, FROM_HOST,   OPEN | FROZEN)   \
	M(PONG,      17, FROM_GUEST,  OPEN | FROZEN)   \
	M(POWEROFF,  18, FROM_HOST,   OPEN | FROZEN)   \
	M(REBOOT,    19, FROM_HOST,   OPEN | FROZEN)   \
	M(SIGNAL,    20, FROM_HOST,   OPEN)            \
	M(RESIZE,    21, FROM_HOST,   OPEN)            \
	M(QUERY,     22, FROM_HOST,   OPEN)            \
	M(STATUS,    23, FROM_GUEST,  OPEN)            \
	M(GET,       24, FROM_HOST,   OPEN)
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

/* DATA: the payload is the bytes of the stream; FRAME_EOF ends it, which closes a command's
 * standard input. ACK, CANCEL, POWEROFF, REBOOT: empty payload. Messages about an operation as a
 * whole carry stream_of(id, PART_CONTROL). */

/* In a HELLO; from the host HELLO_HELD alone: it attaches again, and had an answer in this epoch.
 */
enum hello_flag {
	HELLO_HELD = 1,	  /* it knew this epoch already: commands of it may still be there */
	HELLO_FROZEN = 2, /* its disk is frozen: the session opens in FROZEN, and needs a HEAL */
	HELLO_FLAGS = 3,
};

/*
 * HELLO, either way. The host sends a fresh nonce, and an epoch that is new for each start or
 * restore of a machine and stays while a channel is attached again. The guest's answer repeats
 * both; unasked, when it opens the port, it sends one with a zero nonce: "I am here, greet me".
 * boot_id is the guest kernel's and zero from the host.
 */
struct msg_hello {
	uint16_t generation; /* PROTOCOL_GENERATION */
	uint32_t build;	     /* CRC-32 of the version text of the sender */
	uint8_t nonce[16];
	uint8_t epoch[16];
	uint8_t boot_id[16];
	uint16_t flags; /* enum hello_flag */
};
#define HELLO_BODY (2 + 4 + 16 + 16 + 16 + 2 + 4) /* the last four: CRC-32 of the rest */

enum exec_flag {
	EXEC_STDIN = 1,	     /* stdin is a stream; without it the null device */
	EXEC_AGENT_ROOT = 2, /* in the agent's own root instead of the system's */
	EXEC_PTY = 4, /* a terminal of its own: stdin goes to it, stdout holds all it shows */
	EXEC_FLAGS = 7,
};

/* Strings hold no NUL. An empty dir is "/". The path to run is argv[0], searched in the PATH of
 * env when it has no slash. An empty user is root; else a name or a number of the root that it runs
 * in, with its groups. */
struct msg_exec {
	uint16_t flags;		/* enum exec_flag */
	uint16_t rows, columns; /* of the terminal; 0 without EXEC_PTY */
	uint32_t deadline_ms;	/* TERM to the whole group after this; 0: never */
	uint32_t grace_ms;	/* KILL this long after TERM, also on CANCEL */
	uint64_t output_max; /* bytes of each output that are wanted, the rest is counted; 0: all */
	struct bytes user, dir;
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
	FAIL_FILE = 8,		 /* a file or tree can't be read or written */
	FAIL_USER = 9,		 /* no such user */
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

enum exit_flag {
	EXIT_SIGNALLED = 1,
	EXIT_TIMED_OUT = 2,
	EXIT_CANCELLED = 4,
	EXIT_FLAGS = 7,
};

/* A process that outlived its command. */
struct left_process {
	uint32_t pid;
	struct bytes name; /* up to COMM_LENGTH bytes, as the kernel cut it */
};

/* EXIT: follows the direct child's end and a short drain of what it wrote. */
struct msg_exit {
	uint16_t flags;			     /* enum exit_flag */
	uint16_t value;			     /* exit code, or signal number */
	uint64_t stdout_bytes, stderr_bytes; /* sent in DATA before this */
	uint64_t stdout_cut, stderr_cut;     /* read after output_max was reached, and dropped */
	uint32_t left_behind;		     /* processes of its group that still run */
	uint16_t listed;		     /* so many of them are named */
	struct left_process left[LEFT_MAX];
};

/* SIGNAL: to every process of the command. */
struct msg_signal {
	uint16_t number; /* 1 to 64 */
};

/* RESIZE: of the command's terminal. */
struct msg_resize {
	uint16_t rows, columns;
};

/*
 * QUERY: asked for each operation that is under way when a channel was attached again; until then
 * its outputs rest. Credit is absolute here, since grants may have got lost.
 */
struct msg_query {
	uint32_t stdout_credit, stderr_credit; /* bytes the host takes from now on */
};

enum status_state {
	STATUS_UNKNOWN = 0, /* no such operation: its EXEC never came */
	STATUS_RUNS = 1,
	STATUS_ENDED = 2, /* EXIT follows again, after the output that is still to be sent */
};

/* STATUS: what QUERY is answered with. Bytes that one side sent and the other did not get are
 * lost, and now both know how many. */
struct msg_status {
	uint16_t state;			     /* enum status_state */
	uint64_t stdin_bytes;		     /* that arrived, ever */
	uint32_t stdin_credit;		     /* bytes the guest takes from now on */
	uint64_t stdout_bytes, stderr_bytes; /* that were sent, ever */
};

enum tree_flag {
	TREE_AGENT_ROOT = 1, /* in the agent's own root instead of the system's */
	TREE_MANIFEST = 2,   /* GET: hashes and attributes instead of contents */
	TREE_FLAGS = 3,
};

/*
 * GET and PUT: a file or a whole tree. The tree stream (treestream.h) follows, for GET on
 * PART_STDOUT, for PUT on PART_STDIN. The path is where the tree's first entry stands; a PUT writes
 * each file beside its place and renames it, and makes missing parents of the path.
 */
struct msg_put {
	uint16_t flags;	   /* enum tree_flag */
	struct bytes path; /* absolute */
};

struct msg_get {
	uint16_t flags;
	struct bytes path;
};

/* DONE: the end of a GET or PUT that went well, as the guest counted it. */
struct msg_done {
	uint64_t entries;
	uint64_t bytes; /* of the tree stream */
};

struct msg_prepare {
	uint32_t deadline_ms; /* the freeze ends by itself after this */
};

struct msg_prepared {
	uint32_t error;	  /* errno of the freeze, 0 when frozen */
	uint32_t running; /* commands that have not ended */
};

struct msg_heal {
	uint64_t realtime_ns; /* wall clock to set, 0: leave it */
	struct bytes seed;    /* for the random number generator, may be empty */
};

struct msg_healed {
	uint32_t error; /* errno of the first step that failed, or 0 */
};

struct msg_ping {
	uint64_t token;
};

#define PRESSURE_UNKNOWN 0xffff /* a kernel without pressure figures */

/* PONG: the token comes back, with what the guest is busy with. */
struct msg_pong {
	uint64_t token;
	uint64_t uptime_ms;	  /* of the guest's kernel, without time spent suspended */
	uint16_t cpu, memory, io; /* share of the last 10 s in which somebody waited for it, in
				     1/10000 */
	uint16_t operations;	  /* under way */
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
MESSAGE_CODEC(get);
MESSAGE_CODEC(done);
MESSAGE_CODEC(signal);
MESSAGE_CODEC(resize);
MESSAGE_CODEC(query);
MESSAGE_CODEC(status);
MESSAGE_CODEC(prepare);
MESSAGE_CODEC(prepared);
MESSAGE_CODEC(heal);
MESSAGE_CODEC(healed);
MESSAGE_CODEC(ping);
MESSAGE_CODEC(pong);

/* The tag of the frames of a session. */
uint32_t session_tag(const uint8_t nonce[16]);

#endif
