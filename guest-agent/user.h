/* SPDX-License-Identifier: Apache-2.0 */
/* For a child on its way to exec: become another user of the root it is in. */
#ifndef USER_H
#define USER_H

#include <sys/types.h>

#include "wire.h"

#define GROUPS_MAX 256

struct user {
	uid_t uid;
	gid_t gid;
	size_t groups_len;
	gid_t groups[GROUPS_MAX]; /* supplementary, and gid */
};

/* Looks a name or a number up in /etc/passwd and /etc/group. Returns 0 or errno: ENOENT when there
 * is no such user, E2BIG when it is in too many groups. */
int user_find(struct bytes name, struct user *ret_user);

/* Becomes that user for good. Returns 0 or errno. */
int user_become(const struct user *user);

#endif
