/* SPDX-License-Identifier: Apache-2.0 */
/* How a command in a guest ended: a sentence for people, an exit code for programs. */
#ifndef ENDING_H
#define ENDING_H

#include "foreground.h"
#include "guest.h"

#define EXIT_TIMED_OUT	    124
#define EXIT_OURS	    125
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND	    127

/* Prints "postern WHO: message", returns EXIT_OURS. */
int ending_say(const char *who, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Ends as the signal would have ended us, so that a calling shell sees it. */
void ending_die_by(int signal_number);

/* Says what there is to be said about the result and returns its exit code. */
int ending_of(const struct foreground_spec *spec, const struct guest *guest,
	const struct command_result *r);

#endif
