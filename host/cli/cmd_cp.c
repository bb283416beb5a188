/* SPDX-License-Identifier: Apache-2.0 */
/* postern cp: files and folders between the host and a named machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "command.h"
#include "ending.h"
#include "keeper/place.h"
#include "keeper/visit.h"
#include "link/tree.h"

/* One side of a copy. */
struct end {
	char *machine; /* owned; NULL: this host */
	const char *path;
};

/* NAME:PATH, or a path of the host. */
static struct end read_end(const char *word)
{
	const char *colon = strchr(word, ':');
	struct end e = { .path = word };
	struct err err;

	if (!colon || colon == word)
		return e;
	e.machine = xstrndup(word, (size_t)(colon - word));
	if (place_check_name(e.machine, &err)) {
		e.path = colon + 1;
		return e;
	}
	free(e.machine);
	e.machine = NULL;
	return e;
}

/* The last name of a path; empty where it has none (/, . and ..). Returns owned. */
static char *last_name(const char *path)
{
	size_t end = strlen(path), from;

	while (end && path[end - 1] == '/')
		end--;
	for (from = end; from && path[from - 1] != '/';)
		from--;
	if ((end - from == 1 && path[from] == '.') ||
		(end - from == 2 && !strncmp(path + from, "..", 2)))
		end = from;
	return xstrndup(path + from, end - from);
}

/* What the first entry tells. */
struct first {
	bool came, is_folder;
};

static bool take_first(void *self, const struct tree_item *untrusted)
{
	struct first *f = self;

	f->came = true;
	f->is_folder = untrusted->kind == TREE_ENTRY && untrusted->entry.type == TREE_DIRECTORY;
	return false;
}

/* Is there a folder, or a link to one? False when the guest does not tell. */
static bool guest_has_folder(struct session *s, const char *path, bool *ret_has, struct err *err)
{
	CLEAN(str) char *inside = xasprintf("%s/.", path);
	struct first first = { 0 };
	bool told = session_walk(s, inside, false, take_first, &first, CLOCK_NEVER, err);

	*ret_has = first.is_folder;
	return told || first.came || err->code == ERR_INPUT;
}

/* Where it goes: the path, or a name in the folder that it is. Returns owned; NULL on failure. */
static char *target(const char *source, const char *path, bool is_folder, struct err *err)
{
	size_t len = strlen(path);
	CLEAN(str) char *name = last_name(source);

	if (!is_folder && len && path[len - 1] == '/') {
		err_set(err, ERR_INPUT, "%s: there is no such folder", path);
		return NULL;
	}
	if (!is_folder || !*name)
		return xstrdup(path);
	return xasprintf("%s%s%s", path, len && path[len - 1] == '/' ? "" : "/", name);
}

static void report(const struct tree_report *r)
{
	if (r->skipped)
		fprintf(stderr,
			"postern cp: %llu of %llu entries were not made as they are in the guest "
			"(devices, sockets, set-user-ID bits, owners), the first: %s\n",
			(unsigned long long)r->skipped, (unsigned long long)r->entries,
			*r->first_skipped ? r->first_skipped : "the top");
}

static bool to_guest(struct session *s, const char *source, const char *path, struct err *err)
{
	CLEAN(str) char *to = NULL;
	struct tree_report done;
	bool is_folder;

	if (!guest_has_folder(s, path, &is_folder, err))
		return false;
	to = target(source, path, is_folder, err);
	return to && session_put_tree(s, source, to, false, CLOCK_NEVER, &done, err);
}

/* A link is none of the folders that take it: the guest that it came from may have made it, and
 * would choose where on this host the next copy goes. */
static bool host_has_folder(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool from_guest(struct session *s, const char *source, const char *path, struct err *err)
{
	CLEAN(str) char *to = target(source, path, host_has_folder(path), err);
	struct tree_report done;

	if (!to || !session_get_over(s, source, to, false, CLOCK_NEVER, &done, err))
		return false;
	report(&done);
	return true;
}

static bool copy(struct loop *loop, const struct end *from, const struct end *to, struct err *err)
{
	struct visit v;
	bool ok = visit_open(&v, loop, from->machine ? from->machine : to->machine, err);

	if (ok && from->machine)
		ok = from_guest(v.session, from->path, to->path, err);
	else if (ok)
		ok = to_guest(v.session, from->path, to->path, err);
	if (!ok && v.session && session_broken(v.session)) {
		CLEAN(str) char *story = visit_story(&v);

		err_set(err, ERR_PEER, "%s", story);
	}
	visit_close(&v);
	return ok;
}

static int run_copy(const struct end *from, const struct end *to)
{
	struct loop loop;
	struct err err;
	int signal = 0;
	bool ok;

	if (!from->machine == !to->machine)
		return usage_error(&cmd_cp, "one of the two is NAME:PATH, the other a path of "
					    "this host");
	if (*(from->machine ? from : to)->path != '/')
		return usage_error(&cmd_cp, "a path in a machine begins with /");
	ok = loop_init(&loop, true, &err) && copy(&loop, from, to, &err);
	if (!ok && err.code == ERR_INTERRUPTED)
		signal = loop.signal;
	loop_release(&loop);
	if (signal)
		ending_die_by(signal);
	if (!ok)
		ending_say("cp", "%s", err.text);
	return !ok;
}

static int run(int argc, char **argv)
{
	struct end from, to;
	char **words;
	int code;

	if (usage_wants_help(argc, argv))
		return usage_help(&cmd_cp);
	words = usage_words(&cmd_cp, argc, argv, 2, 2, "want what to copy, and where to");
	if (!words)
		return 2;
	from = read_end(words[0]);
	to = read_end(words[1]);
	code = run_copy(&from, &to);
	free(from.machine);
	free(to.machine);
	return code;
}

const struct cli_command cmd_cp = {
	.name = "cp",
	.args = "SOURCE TARGET",
	.does = "Copy files and folders between this host and a named machine",
	.details =
		"One of the two is NAME:PATH, with an absolute path in the machine NAME; the other "
		"is a path\n"
		"of this host (./a:b, should it have a colon). A folder goes with all below it. "
		"What exists\n"
		"as a folder gets SOURCE into it (on this host, a link to one with a / behind it), "
		"else\n"
		"SOURCE takes the name TARGET, and a file replaces a file. In the machine a folder "
		"is merged\n"
		"into one that is there (SOURCE/. into TARGET itself); on this host what is made "
		"must not be\n"
		"there yet, and devices, sockets and set-user-ID bits are not made. Links are "
		"copied as links,\n"
		"which point where the guest likes, and modes as they are, whatever the umask.\n\n"
		"Exit code: 0 all is copied, 1 not so, 2 wrong use.\n\n"
		"Example: postern cp site box:/var/www\n"
		"         postern cp box:/etc/nginx ./nginx-as-it-was\n",
	.run = run,
};
