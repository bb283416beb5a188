/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of others, passed on through a session: what a switchboard is made of.
 *
 * A relayed operation is a command in all but its two ends. Its opener is a body that somebody else
 * wrote, and what the guest says about it is told frame by frame, judged by the same rules as for
 * our own, but not taken in: the teller's outputs stay unpaid until command_consumed, and the input
 * comes by command_input, which always has room for what the guest has given credit for. In a
 * frozen guest it begins after the HEAL. A grace of more than 10 s is cut to that. Its end in the
 * guest is acknowledged by the session. Everything else of session.h works on it: command_cancel,
 * command_signal, command_resize, command_input_end, command_result, command_free.
 */
#ifndef RELAY_H
#define RELAY_H

#include "frame.h"
#include "session.h"

/* STARTED, FAILED, DATA, CREDIT, EXIT or DONE about it, borrowed. Nothing is told when it is lost:
 * then its result is COMMAND_LOST. */
typedef void relay_told(void *self, const struct frame *checked);

/* type: MSG_EXEC, MSG_PUT or MSG_GET. NULL with ERR_INPUT when the body is not well-formed, with
 * ERR_LIMIT when too many run, with ERR_PEER when no guest is there. Owned by the caller. */
struct command *relay_start(struct session *s, uint16_t type, struct bytes untrusted_body,
	relay_told *told, void *self, struct err *err);

/* Does it read an input at all? */
bool relay_has_input(const struct command *c);

/* Who hears all PONGs of the session; its own session_ping goes on as ever. */
void relay_pongs(struct session *s, void (*pong)(void *self, const struct msg_pong *m), void *self);
/* Is there room for a PING? */
bool relay_can_ping(const struct session *s);
/* Sends one. Returns the token that its PONG will have. */
uint64_t relay_ping(struct session *s);

#endif
