/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock by its system calls: headers of today may be older than the kernel. */
#include "landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

#define ASK_VERSION  1U
#define PATH_BENEATH 1

/* Of files, in the order of the kernel's bits. */
enum {
	EXECUTE = 1 << 0,
	WRITE_FILE = 1 << 1,
	READ_FILE = 1 << 2,
	READ_DIR = 1 << 3,
	TRUNCATE = 1 << 14,
	IOCTL_DEV = 1 << 15,
};

#define OF_FILES (EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV)
#define ALL_TCP	 3U /* bind, connect */
#define OUTSIDE	 3U /* abstract UNIX sockets, signals */

/* As the kernel has it. An older one takes it where what it does not know is 0. */
struct ruleset {
	uint64_t files, network, scope;
};

struct beneath {
	uint64_t access;
	int32_t parent;
} __attribute__((packed));

/* All rights to files that this version knows. */
static uint64_t known(int version)
{
	if (version >= 5)
		return (1U << 16) - 1;
	if (version >= 3)
		return (1U << 15) - 1;
	return version >= 2 ? (1U << 14) - 1 : (1U << 13) - 1;
}

void landlock_init(struct landlock *l)
{
	struct ruleset all = { 0 };
	long version = syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);

	*l = (struct landlock){ .rules = -1 };
	if (version > 0) {
		l->version = (int)version;
		all.files = known(l->version);
		all.network = version >= 4 ? ALL_TCP : 0;
		all.scope = version >= 6 ? OUTSIDE : 0;
		l->rules = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof(all), 0);
	}
	l->why = l->rules < 0 ? errno : 0;
}

void landlock_release(struct landlock *l)
{
	fd_close(&l->rules);
}

static uint64_t wanted(enum landlock_access access)
{
	switch (access) {
	case LANDLOCK_PROGRAMS:
		return EXECUTE | READ_FILE | READ_DIR;
	case LANDLOCK_READ:
		return READ_FILE | READ_DIR;
	case LANDLOCK_CHANGE:
		return READ_FILE | WRITE_FILE;
	case LANDLOCK_WRITE:
		return READ_FILE | WRITE_FILE | TRUNCATE;
	case LANDLOCK_DEVICE:
		return READ_FILE | WRITE_FILE | IOCTL_DEV;
	}
	return 0;
}

void landlock_allow_fd(struct landlock *l, int fd, enum landlock_access access)
{
	struct beneath rule = { .access = wanted(access) & known(l->version), .parent = fd };
	struct stat st;

	if (l->rules < 0 || fd < 0 || fstat(fd, &st) < 0)
		return;
	if (!S_ISDIR(st.st_mode))
		rule.access &= OF_FILES;
	/* EBADFD: a file without a path, which needs no rule. */
	if (syscall(SYS_landlock_add_rule, l->rules, PATH_BENEATH, &rule, 0) < 0 && errno != EBADFD)
		l->why = errno;
}

void landlock_allow(struct landlock *l, const char *path, enum landlock_access access)
{
	CLEAN(fd) int fd = open(path, O_PATH | O_CLOEXEC);

	landlock_allow_fd(l, fd, access);
}

int landlock_enter(const struct landlock *l)
{
	if (l->rules < 0)
		return l->why;
	return syscall(SYS_landlock_restrict_self, l->rules, 0) < 0 ? errno : 0;
}
