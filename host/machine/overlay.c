/* SPDX-License-Identifier: Apache-2.0 */
/* Overlays by qemu-img. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/process.h"
#include "base/xalloc.h"
#include "machine.h"
#include "qemu.h"

#define CREATE_MS 60000
#define MAGIC	  "QFI\xfb"
#define SIZE_AT	  24	       /* in the header, as big-endian 64 bits */
#define SIZE_TOP  (1ULL << 50) /* no machine has more */

bool overlay_size(const char *path, uint64_t *ret_size)
{
	CLEAN(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char magic[4];
	uint64_t size;

	if (fd < 0 || pread(fd, magic, sizeof(magic), 0) != sizeof(magic) ||
		memcmp(magic, MAGIC, sizeof(magic)) != 0 ||
		pread(fd, &size, sizeof(size), SIZE_AT) != sizeof(size) || be64toh(size) > SIZE_TOP)
		return false;
	*ret_size = be64toh(size);
	return true;
}

/* The backing disk is named, not opened: what a guest's QEMU wrote there is for a confined one to
 * read. */
static bool create(const char *file, const char *backing, uint64_t bytes, struct err *err)
{
	CLEAN(str) char *size = xasprintf("%llu", (unsigned long long)bytes);
	CLEAN(buf) struct buf words = { 0 };
	const char *argv[] = { QEMU_IMG_PROGRAM, "create", "-q", "-u", "-f", "qcow2", "-F", "qcow2",
		"-b", backing, file, size, NULL };

	return process_run(argv, QEMU_IMG_PACKAGE, CREATE_MS, &words, 4096, err) ||
	       err_in(err, "making a disk overlay");
}

bool overlay_create(const char *path, const char *backing, struct err *err)
{
	/* A relative name would be taken relative to the overlay, not to us. */
	CLEAN(str) char *absolute = realpath(backing, NULL);
	CLEAN(str) char *file = qemu_path(path);
	uint64_t bytes;

	if (!absolute)
		return err_errno(err, "%s", backing);
	if (!overlay_size(absolute, &bytes))
		return err_set(err, ERR_INPUT, "%s is not a qcow2 disk", absolute);
	return create(file, absolute, bytes, err);
}
