/* SPDX-License-Identifier: Apache-2.0 */
/* Plays one test of a .vec file against an agent, line by line. */
#ifndef PLAY_H
#define PLAY_H

#include "channel.h"
#include "text.h"

/* A statement: a line and those that continue it. */
struct line {
	unsigned number;
	const char *text;
};

enum verdict { PASSED, NOT_PASSED, SKIPPED };

/* Starts the agent, plays, ends it. *ret_line is the line that err is about. */
enum verdict play(const struct line *lines, size_t n, struct text_names *names, char *const *agent,
	unsigned *ret_line, struct err *err);

#endif
