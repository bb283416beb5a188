/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system's disk between PREPARE and HEAL.
 *
 * How it works. A child enters the system's mount namespace, freezes "/" and reports; it thaws when
 * our end of its socket closes (we said so, or died) or its deadline passes, reports again and
 * ends. It is never killed: a freeze that comes late would then last for ever.
 */
#ifndef FREEZE_H
#define FREEZE_H

#include "loop.h"
#include "session.h"

struct freeze {
	int fd;		   /* to the child, -1: none */
	bool frozen;	   /* as far as we know, and nobody asked to thaw */
	bool nobodys;	   /* who asked for it is gone: PREPARED is not said */
	bool lapsed;	   /* it ended by itself, and nobody was told yet */
	bool prepared_due; /* PREPARED is to be said, with `error` */
	bool healed_due;   /* HEALED is to be said once it is thawed, with `heal_error` */
	int error, heal_error;
	uint64_t answer_by; /* when a hanging freeze is given up */
};

void freeze_init(struct freeze *fz);

/* Starts to freeze. system: there is a system beside us whose root can be frozen. */
void freeze_prepare(struct freeze *fz, const struct msg_prepare *m, bool system);
/* New entropy, the clock, then thaw. */
void freeze_heal(struct freeze *fz, const struct msg_heal *m);

/* A HEAL may come: nothing is owed to who asked for the freeze. */
bool freeze_can_heal(const struct freeze *fz);
/* A new session begins: answers to the last one are dropped, the freeze stays. True: it is frozen,
 * or about to be. */
bool freeze_inherit(struct freeze *fz);

void freeze_wants(struct freeze *fz, struct loop *loop);
/* Says what is due, and sets the phase. running: commands that have not ended. */
void freeze_turn(struct freeze *fz, struct session *s, unsigned running);

/* Thaws and forgets. */
void freeze_clear(struct freeze *fz);

#endif
