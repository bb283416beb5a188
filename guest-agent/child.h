/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start a child: a program, or a transfer.
 *
 * How it works. child_start forks and returns at once. The child gets rid of all that is the
 * agent's, enters the root that was asked for and does its work; what becomes of it comes through
 * the report socket. A program has started when that socket ends without a failure.
 */
#ifndef CHILD_H
#define CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "group.h"
#include "messages.h"

struct child_spec {
	enum message kind;	     /* MSG_EXEC, MSG_PUT or MSG_GET */
	const struct msg_exec *exec; /* borrowed during the call, as path is */
	struct bytes path;	     /* of a transfer */
	bool manifest;
	int stdio[3];	     /* all above 2 */
	int report;	     /* the child's end; it closes by itself */
	bool enter_system;   /* run in the root of PID 1, not in ours */
	struct group *group; /* the child becomes its first member */
};

/* -1 with errno when there is no process to be had. */
pid_t child_start(const struct child_spec *spec);

/* For a forked child: go where PID 1 lives. False with errno. */
bool child_enter_system(void);

#endif
