/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of processes by cgroup v2, else by session. */
#include "group.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernfs.h"

#define HOME "vport" /* where the agent itself lives */

static int home = -1; /* its directory */

void groups_init(const char *mount)
{
	int root = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return;
	(void)mkdirat(root, HOME, 0755);
	home = openat(root, HOME, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	close(root);
	if (home >= 0 && !kernfs_write(home, "cgroup.procs", "0")) {
		close(home);
		home = -1;
	}
}

void groups_return(void)
{
	char text[1024];

	if (home < 0 || !kernfs_read(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)))
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

struct group group_new(void)
{
	static unsigned serial;
	struct group group = { .dir = -1, .serial = serial };
	char name[16];

	serial++;
	if (home < 0)
		return group;
	(void)snprintf(name, sizeof(name), "c%u", group.serial);
	if (mkdirat(home, name, 0755) == 0)
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

static uint32_t each_in_cgroup(const struct group *group, int signal)
{
	struct numbers numbers = { .fd = openat(group->dir, "cgroup.procs", O_RDONLY | O_CLOEXEC) };
	uint32_t count = 0;
	pid_t pid;

	while (numbers.fd >= 0 && (pid = numbers_next(&numbers)) > 0) {
		count++;
		if (signal)
			kill(pid, signal);
	}
	close(numbers.fd);
	return count;
}

/* State and session of a process: "PID (COMM) STATE PPID PGRP SESSION"; COMM may hold anything. */
static bool in_session(int proc, const char *pid, pid_t session)
{
	char path[32], text[512], state, *rest;
	int of = 0;

	(void)snprintf(path, sizeof(path), "%.16s/stat", pid);
	if (!kernfs_read(proc, path, text, sizeof(text)))
		return false;
	rest = strrchr(text, ')');
	return rest && sscanf(rest, ") %c %*d %*d %d", &state, &of) == 2 && of == session &&
	       state != 'Z' && state != 'X';
}

static uint32_t each_in_session(const struct group *group, int signal)
{
	struct listing list = { .fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
	uint32_t count = 0;
	const char *name;

	while (list.fd >= 0 && (name = listing_next(&list))) {
		if (name[0] < '1' || name[0] > '9' || !in_session(list.fd, name, group->session))
			continue;
		count++;
		if (signal)
			kill((pid_t)strtol(name, NULL, 10), signal);
	}
	close(list.fd);
	return count;
}

static uint32_t each(const struct group *group, int signal)
{
	if (group->dir >= 0)
		return each_in_cgroup(group, signal);
	return group->session ? each_in_session(group, signal) : 0;
}

void group_signal(const struct group *group, int signal)
{
	(void)each(group, signal);
}

void group_kill(const struct group *group)
{
	if (group->dir >= 0 && kernfs_write(group->dir, "cgroup.kill", "1"))
		return;
	/* Again for those that were born meanwhile; whoever outruns this is not alone to blame. */
	for (int i = 0; i < 3; i++)
		if (!each(group, SIGKILL))
			return;
}

uint32_t group_count(const struct group *group)
{
	return each(group, 0);
}

void group_release(struct group *group)
{
	char name[16];

	if (group->dir >= 0) {
		close(group->dir);
		(void)snprintf(name, sizeof(name), "c%u", group->serial);
		(void)unlinkat(home, name, AT_REMOVEDIR);
	}
	*group = (struct group){ .dir = -1 };
}
