/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operation, a command or a transfer, from its request to the acknowledged result.
 *
 * How it works. Each is a child of ours. Events only note what happened (the report socket spoke,
 * the child was reaped, an output can be read). operation_turn looks at the notes once per turn and
 * does what is due, in this order: stop or kill by time, say FAILED or STARTED, grant input, and,
 * when the child has ended and what it wrote before is sent, say EXIT or DONE. The output itself is
 * sent by the table of operations, which shares the bulk slot out. A command that was told to stop
 * ends when its whole group has ended, or is past its kill.
 *
 * What a command wrote before its end is what its pipes hold when it is reaped: so many bytes are
 * sent, however slow the peer is, and none of those that a daemon adds later. A transfer's output
 * is sent to its end.
 *
 * After the channel was attached again an operation is `held`: its child goes on, and nothing is
 * said until the peer asks.
 */
#ifndef OPERATION_H
#define OPERATION_H

#include "child.h"
#include "loop.h"
#include "pump.h"
#include "report.h"

struct operation {
	enum message kind; /* MSG_EXEC, MSG_PUT or MSG_GET; 0: the place is free */
	uint32_t id;
	pid_t pid;
	int report;	     /* -1: it has spoken */
	struct report said;  /* how a transfer went, or why it failed */
	bool done;	     /* said is a REPORT_DONE */
	bool failed;	     /* FAILED is to be said, then it is over */
	bool started;	     /* what was asked for runs, or ran */
	bool started_due;    /* STARTED is to be said */
	bool reaped;	     /* the child has ended with `status` */
	bool ended, end_due; /* the result is final; it is to be said */
	bool held;
	int status;
	struct input in;
	struct output out[2];	/* stdout, stderr */
	uint16_t rows, columns; /* what its terminal is to become */
	bool resized;		/* it is to */
	uint64_t deadline;	/* when to stop it, 0: never */
	uint64_t kill_at;	/* when to kill it, 0: never */
	uint64_t gone_by;	/* when to wait for its group no longer, 0: it was not killed */
	uint32_t grace_ms;
	uint16_t flags; /* enum exit_flag */
	struct group group;
	struct msg_exit result;
	struct member left[LEFT_MAX]; /* the names in it */
};

/* What is asked for: one of the three. */
struct request {
	enum message kind;
	const struct msg_exec *exec;
	struct bytes path;
	bool manifest;
	bool enter_system;
	int null; /* the null device */
};

/* False with errno: there are no resources, and nothing is left of it. ring takes the bytes for its
 * input. */
bool operation_start(struct operation *o, uint32_t id, const struct request *r, uint8_t *ring);

/* TERM to a command's group, KILL after the grace; a transfer gives up. */
void operation_stop(struct operation *o, enum exit_flag why);
void operation_signal(struct operation *o, int signal);
void operation_resize(struct operation *o, const struct msg_resize *m);
/* Say again what was said already. */
void operation_repeat(struct operation *o);
void operation_reaped(struct operation *o, int status);

/* The channel was attached again. */
void operation_hold(struct operation *o);
/* The answer to a QUERY; then it goes on. */
void operation_resume(struct operation *o, const struct msg_query *m, struct session *s);

void operation_wants(struct operation *o, const struct session *s, struct loop *loop);
/* False: it is over without a result, release it. */
bool operation_turn(struct operation *o, struct session *s);

/* Kills a command or a GET, lets a PUT run into its closed pipe; closes what is open. */
void operation_release(struct operation *o);

#endif
