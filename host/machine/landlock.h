/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that a process may still open, by the kernel's Landlock.
 *
 * How it works. The parent makes the rules: what is not allowed by one is refused, whoever owns it.
 * The child puts them into force, for good and for all that comes after it. Descriptors that it
 * inherits work as before. From version 4 on TCP is refused too, from 6 on abstract UNIX sockets
 * and signals to others.
 */
#ifndef LANDLOCK_H
#define LANDLOCK_H

#include <stdbool.h>

struct landlock {
	int rules;   /* descriptor; -1: there is no Landlock */
	int version; /* of the kernel's; 0: none */
	int why;     /* the errno of what it lacks; 0: nothing */
};

enum landlock_access {
	LANDLOCK_PROGRAMS, /* read and run, a folder with all that is in it */
	LANDLOCK_READ,	   /* a file, or a folder with all that is in it */
	LANDLOCK_CHANGE,   /* read and write one file that keeps its size */
	LANDLOCK_WRITE,	   /* read and write one file */
	LANDLOCK_DEVICE,   /* the same and its own requests */
};

/* Begins with nothing allowed. */
void landlock_init(struct landlock *l);
void landlock_release(struct landlock *l);

/* A path that is not there is none to be allowed. */
void landlock_allow(struct landlock *l, const char *path, enum landlock_access access);
/* The file of a descriptor, which may have no path. */
void landlock_allow_fd(struct landlock *l, int fd, enum landlock_access access);

/* System calls alone. 0, or the errno of why it is not in force. Wants no_new_privs. */
int landlock_enter(const struct landlock *l);

#endif
