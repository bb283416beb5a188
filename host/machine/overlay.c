/* SPDX-License-Identifier: Apache-2.0 */
/* Overlays by qemu-img. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/process.h"
#include "machine.h"
#include "qemu.h"

#define CREATE_MS 60000

bool overlay_create(const char *path, const char *backing, struct err *err)
{
	/* A relative name would be taken relative to the overlay, not to us. */
	CLEAN(str) char *absolute = realpath(backing, NULL);
	CLEAN(str) char *file = qemu_path(path);
	CLEAN(buf) struct buf words = { 0 };
	const char *argv[] = { QEMU_IMG_PROGRAM, "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b",
		absolute, file, NULL };

	if (!absolute)
		return err_errno(err, "%s", backing);
	if (!process_run(argv, QEMU_IMG_PACKAGE, CREATE_MS, &words, 4096, err))
		return err_in(err, "making a disk overlay");
	return true;
}
