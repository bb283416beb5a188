/* SPDX-License-Identifier: Apache-2.0 */
/* The system call by its number. */
#include "beneath.h"

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_openat2
#define SYS_openat2 437
#endif

int beneath_open(int dir, const char *path, int flags, enum beneath rules)
{
	const struct {
		uint64_t flags, mode, resolve;
	} how = { (uint64_t)(unsigned)flags, 0, rules };

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}
