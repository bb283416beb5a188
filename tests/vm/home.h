/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A home of a test's own, with the images that are there; commands of postern in it, and the
 * processes that belong to it: those whose environment has it.
 */
#ifndef HOME_H
#define HOME_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/process.h"

#define OURS_MAX 64

/* Absolute paths. */
extern char home[];
extern char *postern;

/* Makes it, and $POSTERN_HOME name it. Skips the test without images or $POSTERN. */
void home_make(void);
/* Nothing that belongs to it runs, no machine has left a thing, and these are the names in it,
 * sorted and each with a blank behind it. Then it is removed. */
void home_check_and_remove(const char *names);

/* Starts postern with these words. */
struct process *home_start(int input, const char *const *words);
/* Waits for its end and frees it. Returns wait()'s status. */
int home_end(struct process *p);
int home_run(const char *const *words);

#define RUN(...) home_run((const char *const[]){ __VA_ARGS__, NULL })

struct ours {
	pid_t pid;
	bool qemu;
};

/* All but this test. list: of OURS_MAX. */
unsigned home_processes(struct ours *list);
/* Waits until there are so many; there are always others that look. */
void home_wait_processes(unsigned wanted, const char *when);

#endif
