/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that QEMU has no use for and a QEMU that is broken into has: sockets, which reach
 * whatever listens on this host under a name in the file system; owner, mode and size of files by
 * their path, which Landlock does not refuse; the memory of other processes. QEMU's own filter
 * (-sandbox) refuses new programs.
 */
#ifndef CALLFILTER_H
#define CALLFILTER_H

/* System calls alone; for good. 0, or the errno of why it is not in force. Wants no_new_privs. */
int callfilter_enter(void);

#endif
