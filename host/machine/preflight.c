/* SPDX-License-Identifier: Apache-2.0 */
/* What is left of this host's limits. */
#include "preflight.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#define MIB 1048576ULL
/* Nobody is near a limit that is higher; counting takes milliseconds. */
#define WORTH_COUNTING 10000

static const struct {
	long long least;
	const char *what, *remedy;
} table[LIMITS] = {
	[LIMIT_DESCRIPTORS] = { 64, "open files", "raise their limit with `ulimit -n`" },
	[LIMIT_PROCESSES] = { 80, "processes and threads",
		"end other programs of this user, or raise their limit with `ulimit -u`" },
	[LIMIT_MEMORY] = { 128, "MiB of memory",
		"end other programs: a server guest takes 512 MiB" },
	[LIMIT_DISK] = { 16, "MiB of disk", "make room, or point POSTERN_HOME elsewhere" },
};

/* All of this user's, as far as they can be seen. */
static long long threads(void)
{
	const long long user = getuid();
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	long long n = 0;

	while (dir && (entry = readdir(dir))) {
		CLEAN(str) char *status = xasprintf("/proc/%s/status", entry->d_name);

		if (isdigit((unsigned char)entry->d_name[0]) && file_number(status, "Uid:") == user)
			n += file_number(status, "Threads:");
	}
	if (dir)
		closedir(dir);
	return n;
}

static long long processes_left(void)
{
	struct rlimit limit;
	long long left;

	/* Root is not held to it. */
	if (geteuid() == 0 || getrlimit(RLIMIT_NPROC, &limit) < 0 ||
		limit.rlim_cur > WORTH_COUNTING)
		return -1;
	left = (long long)limit.rlim_cur - threads();
	return left > 0 ? left : 0;
}

static long long descriptors_left(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return -1;
	return (long long)limit.rlim_cur;
}

static long long memory_left(void)
{
	long long available = file_number("/proc/meminfo", "MemAvailable:");
	long long swap = file_number("/proc/meminfo", "SwapFree:");

	return available < 0 ? -1 : (available + (swap > 0 ? swap : 0)) / 1024;
}

static long long disk_left(const char *folder)
{
	CLEAN(str) char *path = file_nearest(folder);
	struct statvfs fs;

	return statvfs(path, &fs) < 0 ? -1 : (long long)(fs.f_bavail * fs.f_frsize / MIB);
}

long long limit_left(enum limit limit, const char *folder)
{
	switch (limit) {
	case LIMIT_DESCRIPTORS:
		return descriptors_left();
	case LIMIT_PROCESSES:
		return processes_left();
	case LIMIT_MEMORY:
		return memory_left();
	case LIMIT_DISK:
		return disk_left(folder);
	case LIMITS:
		break;
	}
	return -1;
}

long long limit_least(enum limit limit)
{
	return table[limit].least;
}

const char *limit_remedy(enum limit limit)
{
	return table[limit].remedy;
}

bool limits_suffice(const char *folder, struct err *err)
{
	for (enum limit i = 0; i < LIMITS; i++) {
		long long left = i == LIMIT_DISK && !folder ? -1 : limit_left(i, folder);

		if (left >= 0 && left < table[i].least)
			return err_set(err, ERR_LIMIT,
				"a machine needs at least %lld %s and %lld are left here: %s",
				table[i].least, table[i].what, left, table[i].remedy);
	}
	return true;
}
