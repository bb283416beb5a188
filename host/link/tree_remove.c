/* SPDX-License-Identifier: Apache-2.0 */
/* Remove depth first, one descriptor per level. */
#include "tree_remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

static void remove_all(int fd);

/* A folder of ours, which may have been given a mode that keeps us out. */
static void remove_folder(int dir, const char *name)
{
	(void)!fchmodat(dir, name, 0700, 0);
	remove_all(openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	(void)unlinkat(dir, name, AT_REMOVEDIR);
}

/* Takes fd, so that each level costs one descriptor: no more than to make it. */
static void remove_all(int fd)
{
	DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!list) {
		fd_close(&fd);
		return;
	}
	rewinddir(list);
	while ((entry = readdir(list))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (unlinkat(fd, entry->d_name, 0) < 0 && errno == EISDIR)
			remove_folder(fd, entry->d_name);
	}
	(void)closedir(list);
}

void tree_remove_below(int dir)
{
	remove_all(fcntl(dir, F_DUPFD_CLOEXEC, 0));
}
