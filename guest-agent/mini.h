/* SPDX-License-Identifier: Apache-2.0 */
/* What a machine needs whose only system is the initramfs. */
#ifndef MINI_H
#define MINI_H

#define MINI_CGROUP "/sys/fs/cgroup"

/* Mounts, host name, loopback. What fails is missed by those who need it. */
void mini_set_up(void);

#endif
