/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many callers of one guest, each with a channel of his own.
 *
 * How it works. Each caller speaks the channel protocol, as he would to the agent but for what is
 * listed below, on a connection of his own. Operations of his become operations of the guest's one
 * session (relay.h) under other ids. Credit goes from end to end: what a caller has not granted the
 * guest does not send, so at most a window of each stream waits here, of OPERATIONS_MAX operations
 * of each caller, and a caller who reads slowly holds up nobody but himself. When a connection ends
 * its operations are cancelled and acknowledged.
 *
 * What callers say is trusted as little as what guests say, and a caller that breaks the protocol
 * is disconnected. So is one who asks for what is not his to ask: to freeze, heal, power off or
 * reboot the guest, or to attach again. When the guest starts anew, callers see that as the
 * protocol has it: a HELLO of kind 1, and an answer to theirs as soon as the guest is there again.
 */
#ifndef SWITCHBOARD_H
#define SWITCHBOARD_H

#include "base/loop.h"
#include "link/session.h"

#define CALLERS_MAX 32 /* more wait until one is gone */

struct switchboard;

/* Takes the listening socket (-1: none); borrows the loop. */
struct switchboard *switchboard_new(struct loop *loop, int listener);
void switchboard_free(struct switchboard *b);

/* From now on callers reach this guest, borrowed; NULL: none, until there is one. */
void switchboard_serve(struct switchboard *b, struct session *session);

/* One more caller, on a non-blocking stream socket that it takes. */
void switchboard_add(struct switchboard *b, int fd);

unsigned switchboard_callers(const struct switchboard *b);
/* Operations that have not ended in the guest, also those whose callers are gone. */
unsigned switchboard_operations(const struct switchboard *b);

#endif
