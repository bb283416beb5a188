/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command in a machine, in the foreground: our standard streams, or our terminal,
 * are the command's while it runs.
 */
#ifndef FOREGROUND_H
#define FOREGROUND_H

#include <stdbool.h>
#include <stdint.h>

#define GRACE_MS 5000 /* from TERM to KILL */

/* All borrowed. */
struct foreground_spec {
	const char *who;	  /* "exec": the command of postern that complains */
	const char *image_name;	  /* of a new machine */
	const char *machine_name; /* NULL: a new machine, which is gone afterwards */
	const char *const *argv;  /* NULL-ended */
	const char *const *env;	  /* NULL-ended, the whole environment */
	const char *user;	  /* NULL: root */
	const char *dir;	  /* NULL: / */
	uint32_t deadline_ms;	  /* 0: none */
	bool input;		  /* our standard input is the command's */
	bool terminal;		  /* our terminal is; with input alone */
};

/* Runs it. Returns the exit code of postern, or does not return when a signal ended us. */
int foreground_run(const struct foreground_spec *spec);

#endif
