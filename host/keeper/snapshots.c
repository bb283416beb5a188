/* SPDX-License-Identifier: Apache-2.0 */
/* The snapshots of named machines. */
#include "snapshots.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "place.h"

#define NEW ".new"

/* Of a machine's snapshots; "" is the folder of all. Returns owned. */
static char *path_of(const char *machine, const char *snapshot)
{
	CLEAN(str)
	char *below = xasprintf("snapshots%s%s", *snapshot ? "/" : "", snapshot);

	return place_file(machine, below);
}

bool snapshots_check_name(const char *snapshot, struct err *err)
{
	return place_check_name(snapshot, err) ||
	       err_in(err, "a snapshot is named as a machine is");
}

char *snapshots_line(const char *word, const char *snapshot)
{
	return snapshot ? xasprintf("%s %s", word, snapshot) : xstrdup(word);
}

static int is_entry(const struct dirent *entry)
{
	return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

/* What orders them: made has only seconds. */
static int64_t time_of(const char *machine, const char *snapshot)
{
	CLEAN(str) char *path = path_of(machine, snapshot);
	struct stat st;

	if (stat(path, &st) < 0)
		return 0;
	return (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
}

struct found {
	struct json *facts; /* owned */
	int64_t time;
};

static int by_time(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return (x->time > y->time) - (x->time < y->time);
}

struct json *snapshots_list(const char *machine)
{
	CLEAN(str) char *all = path_of(machine, "");
	struct json *list = json_array();
	struct dirent **entries = NULL;
	int n = scandir(all, &entries, is_entry, alphasort), whole = 0;
	struct found *found = xcalloc(n > 0 ? (size_t)n : 1, sizeof(*found));
	struct err err;

	for (int i = 0; i < n; i++) {
		const char *name = entries[i]->d_name;
		CLEAN(str) char *path = path_of(machine, name);
		struct json *facts = place_check_name(name, &err) ? snapshot_describe(path) : NULL;

		if (facts) {
			json_set_str(facts, "name", name);
			found[whole++] = (struct found){ facts, time_of(machine, name) };
		}
		free(entries[i]);
	}
	qsort(found, (size_t)whole, sizeof(*found), by_time);
	for (int i = 0; i < whole; i++)
		json_add(list, found[i].facts);
	free(found);
	free(entries);
	return list;
}

static char *reason_of(struct loop *loop, const char *machine, const struct json *one)
{
	CLEAN(str) char *path = path_of(machine, json_get_str(one, "name"));
	const char *name = json_get_str(one, "image");
	CLEAN(image) struct image image = { 0 };
	struct err err;

	if (image_open(name ? name : "", &image, &err) && snapshot_fits(loop, path, &image, &err))
		return NULL;
	return xstrdup(err.text);
}

void snapshots_judge(struct loop *loop, const char *machine, struct json *list)
{
	for (size_t i = 0; i < json_len(list); i++) {
		struct json *one = json_at(list, i);
		CLEAN(str) char *reason = reason_of(loop, machine, one);

		json_set_str(one, "reason", reason);
	}
}

static bool fail_without(const char *machine, const char *snapshot, struct err *err)
{
	return err_set(err, ERR_INPUT,
		"the machine %s has no snapshot %s: postern snapshot %s --ls lists those that it "
		"has",
		machine, snapshot, machine);
}

char *snapshots_find(const char *machine, const char *snapshot, char **ret_name, struct err *err)
{
	CLEAN(json) struct json *list = snapshots_list(machine);
	size_t n = json_len(list);

	if (!n) {
		err_set(err, ERR_INPUT,
			"the machine %s has no snapshot: postern snapshot %s takes one", machine,
			machine);
		return NULL;
	}
	for (size_t i = n; i-- > 0;) {
		const char *name = json_get_str(json_at(list, i), "name");

		if (snapshot && strcmp(name, snapshot) != 0)
			continue;
		*ret_name = xstrdup(name);
		return path_of(machine, name);
	}
	fail_without(machine, snapshot, err);
	return NULL;
}

/* Makes the folder of all, and room in it for a new one, whose path it returns, owned. */
static char *make_room(const char *machine, struct err *err)
{
	CLEAN(str) char *all = path_of(machine, "");
	char *new = path_of(machine, NEW);

	if ((mkdir(all, 0700) == 0 || errno == EEXIST || err_errno(err, "%s", all)) &&
		dir_remove(new, err))
		return new;
	free(new);
	return NULL;
}

static char *next_number(const char *machine)
{
	CLEAN(json) struct json *list = snapshots_list(machine);
	unsigned long last = 0;

	for (size_t i = 0; i < json_len(list); i++) {
		const char *name = json_get_str(json_at(list, i), "name");
		char *end;
		unsigned long number = strtoul(name, &end, 10);

		if (!*end && number < 1000000 && number > last)
			last = number;
	}
	return xasprintf("%lu", last + 1);
}

/* Gives the new one its name. */
static bool settle(const char *machine, const char *new, const char *name, struct err *err)
{
	CLEAN(str) char *path = path_of(machine, name);
	struct err ignored;

	if (rename(new, path) == 0)
		return true;
	err_errno(err, "%s", path);
	(void)dir_remove(new, &ignored);
	return false;
}

static bool is_free(const char *machine, const char *name, struct err *err)
{
	CLEAN(str) char *path = path_of(machine, name);

	if (file_is_missing(path))
		return true;
	return err_set(err, ERR_DENIED,
		"the machine %s has a snapshot %s already: postern snapshot %s --rm %s removes it",
		machine, name, machine, name);
}

bool snapshots_remove(const char *machine, const char *snapshot, struct err *err)
{
	CLEAN(str) char *path = path_of(machine, snapshot);
	CLEAN(str) char *new = NULL;

	if (file_is_missing(path))
		return fail_without(machine, snapshot, err);
	new = make_room(machine, err);
	return new && (rename(path, new) == 0 || err_errno(err, "%s", path)) &&
	       dir_remove(new, err);
}

bool snapshots_take(struct loop *loop, const struct snapshot_spec *spec, const char *machine,
	const char *snapshot, char **ret_name, struct snapshot_taken *ret_taken,
	bool *ret_stands_still, struct err *err)
{
	CLEAN(str) char *name = snapshot ? xstrdup(snapshot) : next_number(machine);
	CLEAN(str) char *new = NULL;

	*ret_stands_still = false;
	if (!is_free(machine, name, err))
		return false;
	new = make_room(machine, err);
	if (!new || !snapshot_take(loop, spec, new, ret_taken, ret_stands_still, err) ||
		!settle(machine, new, name, err))
		return false;
	*ret_name = str_take(&name);
	return true;
}

bool snapshots_share(const char *machine, const char *snapshot, const char *with, struct err *err)
{
	CLEAN(str) char *name = NULL;
	CLEAN(str) char *from = snapshots_find(machine, snapshot, &name, err);
	CLEAN(str) char *new = from ? make_room(with, err) : NULL;
	struct err ignored;

	if (!new)
		return false;
	if (snapshot_link(from, new, err))
		return settle(with, new, name, err);
	(void)dir_remove(new, &ignored);
	return false;
}
