/* SPDX-License-Identifier: Apache-2.0 */
/* openat2, which musl does not know: paths that can't leave the folder they begin in. */
#ifndef BENEATH_H
#define BENEATH_H

/* What a path may not do (RESOLVE_ of linux/openat2.h). */
enum beneath {
	BENEATH_NO_MOUNTS = 0x01 | 0x04 | 0x08, /* nor follow any link */
	BENEATH_AS_ROOT = 0x02 | 0x10,		/* links stay inside dir, as after chroot */
};

/* Without mode: nothing is created by it. -1 with errno; EXDEV: a mount point. */
int beneath_open(int dir, const char *path, int flags, enum beneath rules);

#endif
