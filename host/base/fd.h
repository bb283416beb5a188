/* SPDX-License-Identifier: Apache-2.0 */
/* File descriptors, all of them close-on-exec. */
#ifndef FD_H
#define FD_H

#include <stdbool.h>
#include <stddef.h>

#include "clean.h"
#include "err.h"

/* Closes if it is open, and forgets it. */
void fd_close(int *fd);

static inline void fd_clean(int *fd)
{
	fd_close(fd);
}

static inline int fd_take(int *fd)
{
	int out = *fd;

	*fd = -1;
	return out;
}

/* A connected pair of stream sockets; ours does not block. */
bool fd_pair(int *ret_ours, int *ret_theirs, struct err *err);

/* A file of that size that lies in memory and has no name. -1 on failure. */
int fd_in_memory(long long size, struct err *err);

/* Writes all of it to a blocking descriptor, through signals and short writes. */
bool fd_write(int fd, const void *data, size_t len, struct err *err);

#endif
