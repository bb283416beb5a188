/* SPDX-License-Identifier: Apache-2.0 */
/* The whole environment of a guest's command: what the user wants, and defaults. */
#ifndef ENVIRONMENT_H
#define ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "limits.h"

/* Zeroed is empty. */
struct environment {
	const char *pairs[ENV_MAX + 1]; /* NULL-ended, as a command wants them; borrowed */
	size_t n;
	char *term; /* owned */
};

/* Adds or replaces NAME=VALUE; borrows it. Returns what is wrong with it; NULL: nothing. */
const char *environment_set(struct environment *e, const char *pair);

/* Adds what a login would set and was not set yet. is_root: who that is and where its home is, too;
 * terminal: of the same kind as ours. */
void environment_fill(struct environment *e, bool is_root, bool terminal);
void environment_release(struct environment *e);

#endif
