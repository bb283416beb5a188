/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clean on every way out of a block: CLEAN(fd) int fd = -1; CLEAN(str) char *s = NULL;
 *
 * Each kind is a function KIND_clean next to its type. Hand a local to whoever outlives the block
 * with KIND_take; the cleanup then finds nothing to do.
 */
#ifndef CLEAN_H
#define CLEAN_H

#include <stdlib.h>

#define CLEAN(kind) __attribute__((cleanup(kind##_clean)))

static inline void str_clean(char **s)
{
	free(*s);
}

static inline char *str_take(char **s)
{
	char *out = *s;

	*s = NULL;
	return out;
}

#endif
