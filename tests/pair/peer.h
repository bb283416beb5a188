/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of the channel, by hand: raw frames to a real agent over a socketpair.
 *
 * The agent is the program that $POSTERN_AGENT names. Everything here ends the test when it does
 * not go as asked; the deadline is that of the test.
 */
#ifndef PEER_H
#define PEER_H

#include <sys/types.h>

#include "frame.h"
#include "messages.h"
#include "test.h"

struct peer {
	int fd;
	pid_t pid;
	uint8_t nonce[16], epoch[16], boot_id[16];
	uint16_t flags; /* enum hello_flag, of the last answer */
	uint32_t tag;
	struct inbox in;
};

/* Starts an agent. It greets; nothing is read yet. */
void peer_start(struct peer *p);
/* The same, and a session is open. */
void peer_open(struct peer *p);
/* Closes the channel: the agent ends, with code 0. */
void peer_stop(struct peer *p);

/* A new session with a new nonce and epoch; what comes before the answer is dropped. */
void peer_hello(struct peer *p);
/* The same with the epoch as it was. */
void peer_attach(struct peer *p);

void peer_write(struct peer *p, const void *data, size_t len);
void peer_send(struct peer *p, unsigned type, uint32_t stream, struct bytes body);
void peer_send_flags(
	struct peer *p, unsigned type, uint32_t stream, unsigned flags, struct bytes body);
/* Encodes and sends: PEER_SEND(&p, CREDIT, credit, stream, .bytes = 1). */
#define PEER_SEND(p, CODE, codec, stream, ...)                                                     \
	do {                                                                                       \
		static uint8_t body_[PAYLOAD_MAX];                                                 \
		struct writer w_ = writer_of(body_, sizeof(body_));                                \
		put_##codec(&w_, &(struct msg_##codec){ __VA_ARGS__ });                            \
		CHECK(!w_.bad);                                                                    \
		peer_send(p, MSG_##CODE, stream, bytes_of(body_, (size_t)(w_.at - body_)));        \
	} while (0)

/* Waits until bytes have come, and leaves them there. */
void peer_wait(struct peer *p);
/* The next frame, of whatever session. The body is borrowed until the next call. */
struct frame peer_next(struct peer *p);
/* The next frame, which must be this one of this session. */
struct frame peer_expect(struct peer *p, unsigned type, uint32_t stream);
/* A PING is answered, and nothing else comes before that. */
void peer_expect_quiet(struct peer *p);
/* The session is over: the agent greets. Frames before that are dropped. */
void peer_expect_greeting(struct peer *p);

/* Sends EXEC. Empty argv, env, dir and user of m are taken from the vectors, which may be NULL. */
void peer_request(struct peer *p, uint32_t id, const struct msg_exec *m, const char *const *argv,
	const char *const *env);
/* The same with what is asked for most; dir may be NULL. */
void peer_exec(struct peer *p, uint32_t id, unsigned flags, uint32_t deadline_ms, uint32_t grace_ms,
	const char *dir, const char *const *argv, const char *const *env);
/* The same for `sh -c SCRIPT`; STARTED is awaited. */
void peer_shell(struct peer *p, uint32_t id, unsigned flags, const char *script);

struct outcome {
	struct msg_exit exit;
	size_t len[2]; /* bytes of stdout and stderr */
	char out[2][1 << 16];
};

/* Collects output, granting what it takes, until EXIT; acknowledges it. */
void peer_collect(struct peer *p, uint32_t id, struct outcome *ret_outcome);
/* peer_shell and peer_collect; checks the exit code and stdout. */
void peer_check_shell(struct peer *p, uint32_t id, const char *script, int code, const char *out);
/* FAILED of that kind comes next. */
void peer_expect_failed(struct peer *p, uint32_t id, enum fail_kind kind);
void peer_expect_started(struct peer *p, uint32_t id);

/* Sends QUERY with a whole window for each output; returns the STATUS. */
struct msg_status peer_query(struct peer *p, uint32_t id);

/* Bytes to an operation's input. */
void peer_feed(struct peer *p, uint32_t id, const void *data, size_t len, unsigned flags);
/* A message about an operation, without a body. */
void peer_tell(struct peer *p, unsigned type, uint32_t id);

#endif
