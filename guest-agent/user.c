/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users and groups by their files, without heap and without the C library's lookup.
 *
 * The files belong to a system that may be broken or hostile: lines that make no sense or are too
 * long are passed over, and opening never waits.
 */
#include "user.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "limits.h"
#include "text.h"

#define ROW_MAX 4096
#define FIELDS	4 /* that matter: both files have name, password, and two more */

/* A file as lines of fields. */
struct table {
	int fd;
	size_t at, len;
	char buf[1024];
	char line[ROW_MAX];
	char *fields[FIELDS];
};

/* The next byte, or -1. */
static int next_byte(struct table *t)
{
	if (t->at == t->len) {
		ssize_t n = read(t->fd, t->buf, sizeof(t->buf));

		if (n <= 0)
			return -1;
		t->at = 0;
		t->len = (size_t)n;
	}
	return (unsigned char)t->buf[t->at++];
}

/* Reads a line, without its end. False: there is none. */
static bool next_line(struct table *t)
{
	size_t len = 0;
	int c;

	while ((c = next_byte(t)) >= 0 && c != '\n')
		if (len < sizeof(t->line))
			t->line[len++] = (char)c;
	/* Too long to be judged: an empty one is passed over. */
	t->line[len < sizeof(t->line) ? len : 0] = '\0';
	return c >= 0 || len;
}

/* Goes to the next line with enough fields. The last field has all the rest. */
static bool next_row(struct table *t)
{
	while (next_line(t)) {
		char *rest = t->line;
		size_t n = 0;

		while (n < FIELDS && rest) {
			t->fields[n++] = rest;
			rest = strchr(rest, ':');
			if (rest && n < FIELDS)
				*rest++ = '\0';
		}
		if (n == FIELDS)
			return true;
	}
	return false;
}

static bool table_open(struct table *t, const char *path)
{
	t->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	t->at = t->len = 0;
	return t->fd >= 0;
}

/* A number that ends where `end` stands. */
static bool is_id(const char *text, char end, uint32_t *ret_id)
{
	uint64_t n;

	if (!text_number(&text, &n) || *text != end || n >= UINT32_MAX)
		return false;
	*ret_id = (uint32_t)n;
	return true;
}

/* Finds the row of a user, by name or by number; its name is written down for the groups. */
static bool find_row(struct table *t, const char *wanted, bool by_number, struct user *user)
{
	uint32_t number = 0;
	bool found = false;

	if ((by_number && !is_id(wanted, '\0', &number)) || !table_open(t, "/etc/passwd"))
		return false;
	while (!found && next_row(t)) {
		if (!is_id(t->fields[2], '\0', &user->uid) || !is_id(t->fields[3], ':', &user->gid))
			continue;
		found = by_number ? user->uid == number : !strcmp(t->fields[0], wanted);
	}
	close(t->fd);
	return found;
}

static bool is_member(const char *members, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = members; at; at = strchr(at, ',')) {
		at += at != members;
		if (!strncmp(at, name, len) && (at[len] == ',' || at[len] == '\0'))
			return true;
	}
	return false;
}

static int find_groups(struct table *t, const char *name, struct user *user)
{
	uint32_t gid;
	int error = 0;

	user->groups[0] = user->gid;
	user->groups_len = 1;
	if (!table_open(t, "/etc/group"))
		return 0;
	while (!error && next_row(t)) {
		if (!is_id(t->fields[2], '\0', &gid) || gid == user->gid ||
			!is_member(t->fields[3], name))
			continue;
		if (user->groups_len == GROUPS_MAX)
			error = E2BIG;
		else
			user->groups[user->groups_len++] = gid;
	}
	close(t->fd);
	return error;
}

int user_find(struct bytes name, struct user *ret_user)
{
	static struct table table;
	char wanted[ROW_MAX];

	if (name.len > USER_LENGTH)
		return ENOENT;
	memcpy(wanted, name.data, name.len);
	wanted[name.len] = '\0';
	if (!find_row(&table, wanted, false, ret_user) && !find_row(&table, wanted, true, ret_user))
		return ENOENT;
	/* The row that was found: a number has a name now. */
	memcpy(wanted, table.fields[0], strlen(table.fields[0]) + 1);
	return find_groups(&table, wanted, ret_user);
}

int user_become(const struct user *user)
{
	/* Plain system calls: there is one thread, and the C library need not tell others. */
	if (syscall(SYS_setgroups, user->groups_len, user->groups) < 0 ||
		syscall(SYS_setresgid, user->gid, user->gid, user->gid) < 0 ||
		syscall(SYS_setresuid, user->uid, user->uid, user->uid) < 0)
		return errno;
	return 0;
}
