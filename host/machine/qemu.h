/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of QEMU: which devices a machine has, and which it lacks. */
#ifndef QEMU_H
#define QEMU_H

#include "accel.h"
#include "machine.h"

#define QEMU_PROGRAM	  "qemu-system-x86_64"
#define QEMU_PACKAGE	  "qemu-system-x86"
#define QEMU_IMG_PROGRAM  "qemu-img"
#define QEMU_IMG_PACKAGE  "qemu-utils"
#define QEMU_DISK_NODE	  "disk"    /* block node of the first layer */
#define QEMU_CHANNEL_PORT "channel" /* id of the port in events */

/* Descriptors that QEMU inherits under these numbers. */
struct qemu_fds {
	int control, channel, console;
};

/* NULL-ended; returns owned, for qemu_command_free. */
char **qemu_command(const struct machine_spec *spec, enum accel accel, const struct qemu_fds *fds);
void qemu_command_free(char **argv);

/* A host path as QEMU's tools take it: else they may see an option or NAME:PROTOCOL in it. Returns
 * owned. */
char *qemu_path(const char *path);

/* Is this the type of a device that a sealed machine has? */
bool qemu_device_expected(const char *type);

#endif
