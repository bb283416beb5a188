/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of commands and transfers under way.
 *
 * An entry lives from EXEC or PUT until its FAILED is sent, or its EXIT or PUT_DONE is
 * acknowledged. A message for an id that is not there is late, and ignored. Functions that return
 * bool return false when the message breaks the rules: the session is over.
 */
#ifndef OPERATION_H
#define OPERATION_H

#include "command.h"
#include "put.h"

enum operation_kind { OPERATION_FREE, OPERATION_COMMAND, OPERATION_PUT };

struct operation {
	enum operation_kind kind;
	uint32_t id;
	union {
		struct command command;
		struct put put;
	};
};

struct operations {
	struct operation all[OPERATIONS_MAX];
	size_t turn;	   /* the output whose turn it is */
	bool enter_system; /* the system's root is not ours */
	bool ready;	   /* it is there */
	bool received;	   /* files arrived: their bytes are still in the inbox */
	int null;
};

/* null is a descriptor of the null device. */
void operations_init(struct operations *ops, bool enter_system, bool ready, int null);

bool operations_exec(struct operations *ops, struct session *s, const struct frame *f);
bool operations_put(struct operations *ops, struct session *s, const struct frame *f);
bool operations_data(struct operations *ops, struct session *s, const struct frame *f);
bool operations_credit(struct operations *ops, const struct frame *f);
bool operations_cancel(struct operations *ops, struct session *s, const struct frame *f);
bool operations_ack(struct operations *ops, const struct frame *f);

/* True: the process was one of ours. */
bool operations_reaped(struct operations *ops, pid_t pid, int status);

void operations_wants(struct operations *ops, const struct session *s, struct loop *loop);
/* Does what is due, and moves output while the port takes it. */
void operations_turn(struct operations *ops, struct session *s, struct port *port);

/* Kills and forgets everything. */
void operations_clear(struct operations *ops);

#endif
