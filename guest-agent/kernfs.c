/* SPDX-License-Identifier: Apache-2.0 */
/* Read, write and list with plain system calls. */
#include "kernfs.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

bool kernfs_read(int dir, const char *path, char *text, size_t size)
{
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n = -1;

	if (fd < 0)
		return false;
	while (len < size - 1 && (n = read(fd, text + len, size - 1 - len)) > 0)
		len += (size_t)n;
	close(fd);
	if (len && text[len - 1] == '\n')
		len--;
	text[len] = '\0';
	return len || n >= 0;
}

bool kernfs_write(int dir, const char *path, const char *text)
{
	int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = write(fd, text, strlen(text));
	close(fd);
	return n == (ssize_t)strlen(text);
}

/* Of the kernel's headers, which musl comes without. */
#define CONFIG_CREATE 6 /* FSCONFIG_CMD_CREATE */
#define OPEN_CLOEXEC  1 /* FSOPEN_CLOEXEC and FSMOUNT_CLOEXEC */

static int mount_nowhere(const char *type)
{
	int context = (int)syscall(SYS_fsopen, type, OPEN_CLOEXEC), fd = -1;

	if (context < 0)
		return -1;
	if (syscall(SYS_fsconfig, context, CONFIG_CREATE, NULL, NULL, 0) == 0)
		fd = (int)syscall(SYS_fsmount, context, OPEN_CLOEXEC, 0);
	close(context);
	return fd;
}

int kernfs_proc(void)
{
	static int proc = -1;

	if (proc < 0)
		proc = mount_nowhere("proc");
	if (proc < 0)
		proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return proc;
}

/* The kernel's linux_dirent64: its fields, since musl's headers have no kernel headers. */
struct entry {
	uint64_t inode;
	int64_t next;
	uint16_t size;
	uint8_t type;
	char name[];
};

const char *listing_next(struct listing *list)
{
	for (;;) {
		const struct entry *entry;

		if (list->at == list->len) {
			long n = syscall(SYS_getdents64, list->fd, list->buf, sizeof(list->buf));

			if (n <= 0)
				return NULL;
			list->at = 0;
			list->len = (size_t)n;
		}
		entry = (const void *)(list->buf + list->at);
		list->at += entry->size;
		if (strcmp(entry->name, ".") != 0 && strcmp(entry->name, "..") != 0)
			return entry->name;
	}
}
