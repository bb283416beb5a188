/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminals of commands.
 *
 * How it works. The child makes its terminal in the root that it runs in, so that the name of the
 * terminal means something there, leads a session on it and passes the master side to the agent. A
 * hostile system may put anything where the terminals are: whatever blocks there blocks the child.
 */
#ifndef TERMINAL_H
#define TERMINAL_H

#include <stdint.h>
#include <sys/types.h>

/* Bytes that a terminal holds at most for the reader of its master side. */
#define TERMINAL_HOLDS 65536

/* For a child that leads a session: makes a terminal of that size for that user and puts it on 0, 1
 * and 2. Returns the master side, or -1 with errno. */
int terminal_make(uint16_t rows, uint16_t columns, uid_t owner);

/* By any side of it. */
void terminal_resize(int fd, uint16_t rows, uint16_t columns);
/* The character that means end of file at this moment, or -1. */
int terminal_end(int fd);

#endif
