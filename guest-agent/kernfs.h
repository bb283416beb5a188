/* SPDX-License-Identifier: Apache-2.0 */
/* Small kernel files and directory listings, without heap. */
#ifndef KERNFS_H
#define KERNFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Paths are relative to dir, as with openat. Reads up to size - 1 bytes, ends them with a NUL and
 * drops a last newline. False when the file can't be read. */
bool kernfs_read(int dir, const char *path, char *text, size_t size);
bool kernfs_write(int dir, const char *path, const char *text);

/*
 * The agent's own view of /proc, to be used as dir: a file system that is mounted nowhere, so that
 * nobody can unmount or hide it. Where the kernel can't do that it is /proc itself. -1: neither.
 */
int kernfs_proc(void);

/* A walk over the names in a directory; zero it and set fd. */
struct listing {
	int fd;
	size_t at, len;
	_Alignas(8) uint8_t buf[1024];
};

/* The next name but "." and "..", borrowed until the next call; NULL at the end. */
const char *listing_next(struct listing *list);

#endif
