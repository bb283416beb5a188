/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of commands and transfers under way.
 *
 * An entry lives from its request until its FAILED is sent, or its EXIT or DONE is acknowledged. A
 * message for an id that is not there is late, and ignored. Functions that return bool return false
 * when the message breaks the rules: the session is over.
 */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include "operation.h"

struct operations {
	struct operation all[OPERATIONS_MAX];
	size_t used;	   /* all others are free; so most turns look at one or none */
	size_t turn;	   /* the output whose turn it is */
	bool enter_system; /* the system's root is not ours */
	bool ready;	   /* it is there */
	bool received;	   /* files arrived: their bytes are still in the inbox */
	int null;
};

/* null is a descriptor of the null device. */
void operations_init(struct operations *ops, bool enter_system, bool ready, int null);

/* EXEC, PUT and GET. */
bool operations_begin(struct operations *ops, struct session *s, const struct frame *f);
bool operations_data(struct operations *ops, struct session *s, const struct frame *f);
bool operations_credit(struct operations *ops, struct session *s, const struct frame *f);
bool operations_cancel(struct operations *ops, struct session *s, const struct frame *f);
bool operations_signal(struct operations *ops, struct session *s, const struct frame *f);
bool operations_resize(struct operations *ops, struct session *s, const struct frame *f);
bool operations_query(struct operations *ops, struct session *s, const struct frame *f);
bool operations_ack(struct operations *ops, struct session *s, const struct frame *f);

/* True: the process was one of ours. */
bool operations_reaped(struct operations *ops, pid_t pid, int status);

void operations_wants(struct operations *ops, const struct session *s, struct loop *loop);
/* Does what is due, and moves output while the port takes it. */
void operations_turn(struct operations *ops, struct session *s, struct port *port);
/* Those that have no result yet. */
unsigned operations_running(const struct operations *ops);

/* The channel was attached again: commands rest, transfers are forgotten. */
void operations_hold(struct operations *ops);
/* Kills and forgets everything. */
void operations_clear(struct operations *ops);

#endif
