/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All processes of one command: a cgroup of its own, or its session where there is no cgroup v2.
 *
 * How it works. groups_init moves the agent into a cgroup below a private mount; each command gets
 * a child of it. The system's init may move early processes elsewhere, so groups_return is asked
 * before each command. Emptied groups are removed by groups_sweep.
 */
#ifndef GROUP_H
#define GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "limits.h"

/* mount is where a cgroup2 file system is mounted. Without this call there are sessions only. */
void groups_init(const char *mount);
void groups_return(void);
void groups_sweep(void);

struct group {
	int dir;	 /* of the cgroup, -1: none */
	unsigned serial; /* its name */
	pid_t session;	 /* the first process, which leads a session */
};

/* Makes a group without members. Never fails: it may have no cgroup. */
struct group group_new(void);
void group_signal(const struct group *group, int signal);
void group_kill(const struct group *group);
/* Processes that live. */
uint32_t group_count(const struct group *group);

/* A process by its name, as the kernel cut it. */
struct member {
	pid_t pid;
	char name[COMM_LENGTH + 1];
};

/* The same, and writes down the first ones: *ret_listed of them, up to LEFT_MAX. */
uint32_t group_list(const struct group *group, struct member *members, uint16_t *ret_listed);
/* Forgets it; the members live on. */
void group_release(struct group *group);

#endif
