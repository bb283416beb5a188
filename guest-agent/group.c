/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of processes by cgroup v2, else by session. */
#include "group.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernfs.h"
#include "text.h"

#define HOME "vport" /* where the agent itself lives */

static int home = -1; /* its directory */

void groups_init(const char *mount)
{
	int root = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return;
	(void)mkdirat(root, HOME, 0755);
	home = openat(root, HOME, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (home >= 0 && !kernfs_write(home, "cgroup.procs", "0")) {
		close(home);
		home = -1;
		(void)unlinkat(root, HOME, AT_REMOVEDIR);
	}
	close(root);
}

void groups_return(void)
{
	char text[1024];

	if (home < 0 || !kernfs_read(kernfs_proc(), "self/cgroup", text, sizeof(text)))
		return;
	if (!strstr(text, "0::/" HOME))
		(void)kernfs_write(home, "cgroup.procs", "0");
}

void groups_sweep(void)
{
	struct listing list = { .fd = -1 };
	const char *name;

	if (home < 0)
		return;
	list.fd = openat(home, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (list.fd >= 0 && (name = listing_next(&list)))
		if (name[0] == 'c' && name[1] >= '0' && name[1] <= '9')
			(void)unlinkat(home, name, AT_REMOVEDIR);
	close(list.fd);
}

/* "c7" */
static void name_of(const struct group *group, char name[16])
{
	struct text text = text_in(name, 16);

	text_add(&text, "c");
	text_add_number(&text, group->serial);
}

struct group group_new(void)
{
	static unsigned serial;
	struct group group = { .dir = -1 };
	char name[16];
	int made = -1;

	/* Those of an agent before us may still be there. */
	for (int i = 0; i < 1000 && made < 0 && home >= 0; i++) {
		group.serial = serial++;
		name_of(&group, name);
		made = mkdirat(home, name, 0755);
		if (made < 0 && errno != EEXIST)
			break;
	}
	if (made == 0)
		group.dir = openat(home, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return group;
}

/* Reads the numbers in a file of one number per line. */
struct numbers {
	int fd;
	size_t at, len;
	char buf[512];
};

static pid_t numbers_next(struct numbers *n)
{
	pid_t value = 0;

	for (;;) {
		if (n->at == n->len) {
			ssize_t got = read(n->fd, n->buf, sizeof(n->buf));

			if (got <= 0)
				return 0;
			n->at = 0;
			n->len = (size_t)got;
		}
		if (n->buf[n->at] < '0') {
			n->at++;
			return value;
		}
		value = value * 10 + (n->buf[n->at++] - '0');
	}
}

/* The file of a process. */
static bool read_of(pid_t pid, const char *file, char *text, size_t size)
{
	char path[32];
	struct text name = text_in(path, sizeof(path));

	text_add_number(&name, (uint64_t)pid);
	text_add(&name, file);
	return kernfs_read(kernfs_proc(), path, text, size);
}

/* What is done with each member. */
struct visit {
	int signal; /* 0: none */
	uint32_t count;
	struct member *members; /* NULL: they need not be written down */
	uint16_t listed;
};

static void meet(struct visit *visit, pid_t pid)
{
	visit->count++;
	if (visit->signal)
		kill(pid, visit->signal);
	if (visit->members && visit->listed < LEFT_MAX) {
		struct member *member = &visit->members[visit->listed++];

		member->pid = pid;
		if (!read_of(pid, "/comm", member->name, sizeof(member->name)))
			member->name[0] = '\0';
	}
}

static uint32_t each_in_cgroup(const struct group *group, struct visit *visit)
{
	struct numbers numbers = { .fd = openat(group->dir, "cgroup.procs", O_RDONLY | O_CLOEXEC) };
	pid_t pid;

	while (numbers.fd >= 0 && (pid = numbers_next(&numbers)) > 0)
		meet(visit, pid);
	close(numbers.fd);
	return visit->count;
}

/* Lives, in that session. Its state stands behind its name, which may hold anything. */
static bool in_session(pid_t pid, pid_t session)
{
	char text[512];
	const char *state;

	if (getsid(pid) != session || !read_of(pid, "/stat", text, sizeof(text)))
		return false;
	state = strrchr(text, ')');
	return state && state[1] == ' ' && state[2] != 'Z' && state[2] != 'X';
}

static uint32_t each_in_session(const struct group *group, struct visit *visit)
{
	struct listing list = { .fd = openat(
					kernfs_proc(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
	const char *name;
	uint64_t pid;

	while (list.fd >= 0 && (name = listing_next(&list)))
		if (text_number(&name, &pid) && in_session((pid_t)pid, group->session))
			meet(visit, (pid_t)pid);
	close(list.fd);
	return visit->count;
}

static uint32_t each(const struct group *group, struct visit *visit)
{
	if (group->dir >= 0)
		return each_in_cgroup(group, visit);
	return group->session ? each_in_session(group, visit) : 0;
}

void group_signal(const struct group *group, int signal)
{
	(void)each(group, &(struct visit){ .signal = signal });
}

void group_kill(const struct group *group)
{
	if (group->dir >= 0 && kernfs_write(group->dir, "cgroup.kill", "1"))
		return;
	/* Again for those that were born meanwhile; whoever outruns this is not alone to blame. */
	for (int i = 0; i < 3; i++)
		if (!each(group, &(struct visit){ .signal = SIGKILL }))
			return;
}

uint32_t group_count(const struct group *group)
{
	return each(group, &(struct visit){ 0 });
}

uint32_t group_list(const struct group *group, struct member *members, uint16_t *ret_listed)
{
	struct visit visit = { .members = members };
	uint32_t count = each(group, &visit);

	*ret_listed = visit.listed;
	return count;
}

void group_release(struct group *group)
{
	char name[16];

	if (group->dir >= 0) {
		close(group->dir);
		name_of(group, name);
		(void)unlinkat(home, name, AT_REMOVEDIR);
	}
	*group = (struct group){ .dir = -1 };
}
