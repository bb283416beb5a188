/* SPDX-License-Identifier: Apache-2.0 */
/* Start a program, and know why it did not start. */
#ifndef CHILD_H
#define CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "group.h"
#include "messages.h"

/* What the report pipe holds when the program did not start; it is empty when it did. */
struct child_report {
	enum fail_kind kind;
	int error;
};

struct child_spec {
	const struct msg_exec *exec; /* borrowed during the call */
	int stdio[3];		     /* all above 2 */
	int report;		     /* the end to write; it closes by itself */
	bool enter_system;	     /* run in the root of PID 1, not in ours */
	struct group *group;	     /* the child becomes its first member */
};

/* Forks and returns at once; -1 with errno when there is no process to be had. */
pid_t child_start(const struct child_spec *spec);

/* For a forked child: go where PID 1 lives. False with errno. */
bool child_enter_system(void);

#endif
