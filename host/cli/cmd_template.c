/* SPDX-License-Identifier: Apache-2.0 */
/* postern template: what warmed machines are kept, and away with them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "command.h"
#include "machine/template_list.h"

#define MIB 1048576

static void tell(void *self, const char *text)
{
	(void)self;
	fprintf(stderr, "postern template: %s\n", text);
}

static int complain(const struct err *err)
{
	fprintf(stderr, "postern template: %s\n", err->text);
	return 1;
}

/* All there are, in a comma-separated list, or the one that was named. */
typedef bool each(struct loop *loop, const char *name, void *self, struct err *err);

/* Goes on after one that failed. */
static int for_each(struct loop *loop, const char *names, each *act, void *self)
{
	CLEAN(str) char *list = xstrdup(names ? names : "");
	char *rest = NULL;
	struct err err;
	int code = 0;

	for (char *name = strtok_r(list, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest))
		if (!act(loop, name, self, &err))
			code = complain(&err);
	return code;
}

static bool describe(struct loop *loop, const char *name, void *self, struct err *err)
{
	struct json *one = template_describe(loop, name, err);

	if (one)
		json_add(self, one);
	return one;
}

static void print_one(const struct json *t)
{
	const char *made = json_get_str(t, "made");
	const char *reason = json_get_str(t, "reason");

	printf("%-16s %6lld MiB  %-20s  %-4s  %3lld old  %s\n", json_get_str(t, "image"),
		(long long)(json_get_int(t, "bytes", 0) / MIB), made ? made : "-",
		reason ? "no" : "fits", (long long)json_get_int(t, "old_overlays", 0),
		reason ? reason : "");
}

static int list(struct loop *loop, const char *names, bool as_json)
{
	CLEAN(json) struct json *all = json_object();
	struct json *templates = json_set(all, "templates", json_array());
	int code = for_each(loop, names, describe, templates);
	CLEAN(str) char *text = as_json ? json_pretty(all) : NULL;

	if (as_json)
		puts(text);
	for (size_t i = 0; !as_json && i < json_len(templates); i++)
		print_one(json_at(templates, i));
	if (!as_json && !json_len(templates) && !code)
		puts("there are no templates: the first machine of an image makes one");
	return code;
}

static bool verify(struct loop *loop, const char *name, void *self, struct err *err)
{
	if (!template_verify(loop, name, tell, self, err))
		return false;
	printf("%s: whole\n", name);
	return true;
}

static bool removes(struct loop *loop, const char *name, void *self, struct err *err)
{
	CLEAN(json) struct json *t = template_describe(loop, name, err);

	if (!t || !template_remove(loop, name, tell, self, err))
		return false;
	printf("removed the template of image %s, %lld MiB; disks in records of trials that began "
	       "as its clones can't be read any more\n",
		name, (long long)(json_get_int(t, "bytes", 0) / MIB));
	return true;
}

static int act(struct loop *loop, int argc, char **argv)
{
	CLEAN(str) char *all = template_names();
	const char *what = argc > 1 ? argv[1] : "", *word = argc > 2 ? argv[2] : NULL;
	bool option = word && *word == '-';

	if (argc > 3)
		return usage_error(&cmd_template, "%s is one word too many", argv[3]);
	if (!strcmp(what, "ls") && (!word || !strcmp(word, "--json")))
		return list(loop, all, word);
	if (!strcmp(what, "verify") && !option)
		return for_each(loop, word ? word : all, verify, NULL);
	if (!strcmp(what, "rm") && word && (!option || !strcmp(word, "--all")))
		return for_each(loop, option ? all : word, removes, NULL);
	if (!strcmp(what, "rm") && !word)
		return usage_error(&cmd_template, "rm needs the name of an image, or --all");
	if (!strcmp(what, "ls") || !strcmp(what, "verify") || !strcmp(what, "rm"))
		return usage_error(&cmd_template, "%s %s is not understood", what, word);
	return usage_error(&cmd_template, "want ls, verify or rm");
}

static int run(int argc, char **argv)
{
	struct loop loop;
	struct err err;
	int code;

	if (!loop_init(&loop, false, &err))
		return complain(&err);
	code = act(&loop, argc, argv);
	loop_release(&loop);
	return code;
}

const struct cli_command cmd_template = {
	.name = "template",
	.args = "ls [--json] | verify [IMAGE] | rm IMAGE|--all",
	.does = "Look after the warmed machines on disk that new ones start from",
	.details =
		"  ls      each image's template: room on disk, when it was made (UTC), whether "
		"it\n"
		"          fits or what changed since, and how many disks of old ones are kept\n"
		"  verify  compare its files with their SHA-256 of when it was made\n"
		"  rm      remove it with all old disks; what was recorded of trials stays, but "
		"for\n"
		"          the disks of those that began as its clones\n"
		"  --json  the same for programs\n"
		"  --all   of all images\n\n"
		"The first machine of an image makes its template, and one that does not fit is "
		"made\n"
		"anew, so it is always safe to remove one but for the disks of recorded trials.\n\n"
		"Exit code: 0 done, 1 when a template is damaged or not there, 2 wrong use.\n\n"
		"Example: postern template ls\n"
		"         postern template rm server\n",
	.run = run,
};
