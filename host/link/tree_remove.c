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

/* A folder of ours, which may have been given a mode that keeps us out. */
static void remove_folder(int dir, const char *name)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	CLEAN(fd) int fd = -1;

	(void)!fchmodat(dir, name, 0700, 0);
	fd = openat(dir, name, flags);
	if (fd >= 0)
		tree_remove_below(fd);
	(void)unlinkat(dir, name, AT_REMOVEDIR);
}

void tree_remove_below(int dir)
{
	int fd = fcntl(dir, F_DUPFD_CLOEXEC, 0);
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
		if (unlinkat(dir, entry->d_name, 0) < 0 && errno == EISDIR)
			remove_folder(dir, entry->d_name);
	}
	(void)closedir(list);
}
