/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that we start and that never outlives us.
 *
 * The life of a child:
 *  1. process_start: it runs, or the error says why it can't. It is in a session of its own, so a
 *     terminal's Ctrl-C reaches only us, and it is killed by the kernel when we die.
 *  2. It inherits the three standard descriptors it is given and those in keep, nothing else;
 *     signals are at their defaults. What else its owner wants to be so is done by enter, last.
 *  3. process_fd is readable once it has ended; process_ended then reaps it.
 *  4. process_free kills it with all that is left in its process group, and reaps it.
 */
#ifndef PROCESS_H
#define PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"

struct process_spec {
	const char *const *argv; /* NULL-ended; argv[0] is looked up in PATH */
	const char *package;	 /* what to install when it is missing. NULL: don't say */
	int stdio[3];		 /* above 2, or its own number. -1: the null device */
	const int *keep;	 /* inherited under their own numbers, ended by -1. NULL: none */

	/* Called in the child, where only system calls may be made: what it gives up before it
	 * becomes the program. False, with errno: the program does not start. NULL: nothing. */
	bool (*enter)(const void *self);
	const void *self;
};

struct process;

/* Borrows the descriptors: the caller closes his copies. NULL on failure. */
struct process *process_start(const struct process_spec *spec, struct err *err);
/* NULL is fine. */
void process_free(struct process *p);

static inline void process_clean(struct process **p)
{
	process_free(*p);
}

/* A pidfd, for poll. Borrowed. */
int process_fd(const struct process *p);
/* Has it ended? Never blocks. status is wait()'s and may be NULL. */
bool process_ended(struct process *p, int *ret_status);
/* Waits for the end without any loop; for ends that are near. False: it did not come in time. */
bool process_wait(struct process *p, int milliseconds);
/* Processor time it has used so far; 0 when it has ended. */
int64_t process_cpu_ms(const struct process *p);
/* "ended with status 1", "was killed by signal 9 (Killed)". Returns owned. */
char *process_epitaph(int status);

/*
 * Runs a short helper to its end, stdin empty, stdout and stderr into out (at most max bytes,
 * the rest is dropped). False when it could not run, took too long, or failed: the error then
 * ends in its last words.
 */
bool process_run(const char *const *argv, const char *package, int64_t milliseconds,
	struct buf *out, size_t max, struct err *err);

/* The file that a program name means in PATH. Returns owned; NULL: none. */
char *process_find(const char *name);

#endif
