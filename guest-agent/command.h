/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command, from EXEC to the acknowledged EXIT.
 *
 * How it works. Events only note what happened (the report pipe spoke, the child was reaped, a
 * pipe can be read). command_turn looks at the notes once per turn and does what is due, in this
 * order: stop or kill by time, say FAILED or STARTED, grant input, and, when the direct child has
 * ended and what it wrote before is sent, say EXIT. The output itself is sent by the table of
 * operations, which shares the bulk slot out. A command that was told to stop ends when its whole
 * group has ended, or is past its kill.
 *
 * What a child wrote before its end is what its pipes hold when it is reaped: so many bytes are
 * sent, however slow the peer is, and none of those that a daemon adds later.
 */
#ifndef COMMAND_H
#define COMMAND_H

#include "child.h"
#include "loop.h"
#include "pump.h"

struct command {
	pid_t pid;
	int report;	      /* -1: it has spoken */
	bool started_due;     /* STARTED is to be said */
	bool failed;	      /* FAILED is to be said, then it is over */
	bool reaped;	      /* the direct child has ended with `status` */
	bool ended, exit_due; /* `result` is final; EXIT is to be said */
	int status;
	struct child_report failure;
	struct input in;
	struct output out[2]; /* stdout, stderr */
	uint64_t deadline;    /* when to stop it, 0: never */
	uint64_t kill_at;     /* when to kill it, 0: never */
	uint64_t gone_by;     /* when to wait for its group no longer, 0: it was not killed */
	uint32_t grace_ms;
	uint16_t flags; /* enum exit_flag */
	struct group group;
	struct msg_exit result;
};

/* Zeroed and with all descriptors closed. */
void command_init(struct command *c, uint8_t *ring);

/* False with errno: there are no resources, and nothing is left of it. null is the null device. */
bool command_start(struct command *c, const struct msg_exec *m, bool enter_system, int null);

/* TERM to the group, KILL after the grace. */
void command_stop(struct command *c, enum exit_flag why);
/* Say again what was said already. */
void command_repeat(struct command *c);
void command_reaped(struct command *c, int status);

void command_wants(struct command *c, const struct session *s, struct loop *loop);
/* False: it is over without an EXIT, release it. */
bool command_turn(struct command *c, struct session *s, uint32_t id);

/* Kills what runs, closes what is open. */
void command_release(struct command *c);

#endif
