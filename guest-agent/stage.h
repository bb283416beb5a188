/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the first process of an initramfs to the system's init.
 *
 * How it works. PID 1 mounts the kernel's file systems and does what /boot.conf says, line by line:
 *
 *	module PATH           loads a kernel module
 *	root DEVICE FSTYPE    the system's disk
 *	init PATH             its first program
 *
 * Without a root it stays PID 1 and serves for good. With one it forks; the copy goes to a private
 * mount namespace and executes itself anew under a neutral name that begins with "@", so that
 * systemd spares it at shutdown. Only when that is done PID 1 mounts the disk: the copy never holds
 * a mount of it. The copy learns from a pipe that ends at exec when PID 1 has become the system.
 */
#ifndef STAGE_H
#define STAGE_H

/* PID 1 of an initramfs. Returns never: it serves, becomes the system's init, or switches off. */
_Noreturn void stage_boot(char **argv, char **envp);

/* The copy, executed anew. */
_Noreturn void stage_serve(void);

/* What argv[0] of the copy begins with. */
#define STAGE_MARK '@'

#endif
