/* SPDX-License-Identifier: Apache-2.0 */
/* What a machine needs whose only system is the initramfs. */
#ifndef MINI_H
#define MINI_H

#define MINI_CGROUP "/sys/fs/cgroup"

/* A file system of its own for terminals, on /dev/pts. */
void mini_terminals(void);

/* Mounts, host name, loopback. What fails is missed by those who need it. */
void mini_set_up(void);

#endif
