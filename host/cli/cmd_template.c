/* SPDX-License-Identifier: Apache-2.0 */
/* postern template: what warmed machines are kept, and away with them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "command.h"
#include "keeper/place.h"
#include "keeper/snapshots.h"
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

/* What was asked for. */
struct request {
	struct loop loop;
	const char *template; /* NULL: all of them */
	bool json, all;
	struct json *templates; /* of ls */
};

typedef bool each(struct request *r, const char *name, struct err *err);

/* Does it to all there are, or to the one that was named. Goes on after one that failed. */
static int for_each(struct request *r, each *act)
{
	CLEAN(str) char *list = NULL;
	char *rest, *name;
	struct err err;
	int code = 0;

	if (r->template)
		return act(r, r->template, &err) ? 0 : complain(&err);
	if (!template_names(&list, &err))
		return complain(&err);
	rest = list;
	while (name = list_next(&rest), name)
		if (!act(r, name, &err))
			code = complain(&err);
	if (!list && !r->json)
		puts("there are no templates: the first machine of an image makes one");
	return code;
}

static bool describe(struct request *r, const char *name, struct err *err)
{
	struct json *one = template_describe(&r->loop, name, err);

	if (one)
		json_add(r->templates, one);
	return one;
}

static void print_one(const struct json *t)
{
	const char *made = json_get_str(t, "made");
	const char *reason = json_get_str(t, "reason");

	printf("%-24s %6lld MiB  %-20s  %-4s  %9lld%s%s\n", json_get_str(t, "name"),
		(long long)(json_get_int(t, "bytes", 0) / MIB), made ? made : "-",
		reason ? "no" : "yes", (long long)json_get_int(t, "old_overlays", 0),
		reason ? "  " : "", reason ? reason : "");
}

static int list(struct request *r)
{
	CLEAN(json) struct json *all = json_object();
	CLEAN(str) char *text = NULL;
	int code;

	r->templates = json_set(all, "templates", json_array());
	code = for_each(r, describe);
	if (r->json) {
		text = json_pretty(all);
		puts(text);
		return code;
	}
	if (json_len(r->templates))
		printf("%-24s %10s  %-20s  %-4s  %s\n", "NAME", "ON DISK", "MADE", "FITS",
			"OLD DISKS");
	for (size_t i = 0; i < json_len(r->templates); i++)
		print_one(json_at(r->templates, i));
	return code;
}

static bool verify(struct request *r, const char *name, struct err *err)
{
	if (!template_verify(&r->loop, name, tell, NULL, err))
		return false;
	printf("%s: whole\n", name);
	return true;
}

/* Snapshots of named machines that stand on a disk that is not there. */
static size_t count_lost(void)
{
	CLEAN(str) char *names = place_names();
	char *rest = names, *name;
	size_t n = 0;

	while (name = list_next(&rest), name) {
		CLEAN(json) struct json *list = snapshots_list(name);

		for (size_t i = 0; i < json_len(list); i++) {
			const char *below = json_get_str(json_at(list, i), "below");

			n += below && !file_exists(below);
		}
	}
	return n;
}

static bool removes(struct request *r, const char *name, struct err *err)
{
	CLEAN(str) char *title = folder_title(name);
	const size_t lost = count_lost();
	struct folder_use use;

	if (!template_remove(&r->loop, name, tell, NULL, &use, err))
		return false;
	printf("removed the template of %s, %lld MiB%s\n", title, (long long)(use.bytes / MIB),
		use.disks ? "; disks in records of trials that began as its clones can't be read "
			    "any more"
			  : "");
	if (count_lost() > lost)
		printf("%zu snapshots of machines stood on its disk and can't be used any more: "
		       "postern snapshot NAME --ls shows which\n",
			count_lost() - lost);
	return true;
}

static int verify_all(struct request *r)
{
	return for_each(r, verify);
}

static int remove_all(struct request *r)
{
	if (r->all && r->template)
		return usage_error(
			&cmd_template, "rm takes the name of a template or --all, not both");
	if (!r->all && !r->template)
		return usage_error(&cmd_template, "rm needs the name of a template, or --all");
	return for_each(r, removes);
}

static const struct kind {
	const char *name;
	int (*act)(struct request *r);
	const char *option; /* the one that it takes, or NULL */
	bool template;	    /* does it take the name of one? */
} kinds[] = {
	{ "ls", list, "--json", false },
	{ "verify", verify_all, NULL, true },
	{ "rm", remove_all, "--all", true },
};

/* Returns 0, or the exit code of a wrong use. */
static int take_word(struct request *r, const struct kind *kind, const char *word)
{
	const bool json = !strcmp(word, "--json"), all = !strcmp(word, "--all");

	if (kind->option && !strcmp(word, kind->option))
		*(json ? &r->json : &r->all) = true;
	else if (json || all)
		return usage_error(&cmd_template, "%s is for %s, not for %s", word,
			json ? "ls" : "rm", kind->name);
	else if (*word == '-')
		return usage_error(&cmd_template, "unknown option %s", word);
	else if (!kind->template)
		return usage_error(&cmd_template, "%s tells of all templates and takes no %s",
			kind->name, word);
	else if (r->template)
		return usage_error(&cmd_template, "%s is one word too many", word);
	else
		r->template = word;
	return 0;
}

static int act(struct request *r, char **words)
{
	const char *name = *words ? *words++ : NULL;
	const struct kind *kind = NULL;
	int code;

	for (size_t i = 0; name && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(name, kinds[i].name))
			kind = &kinds[i];
	if (!name)
		return usage_error(&cmd_template, "want ls, verify or rm");
	if (!kind)
		return usage_error(&cmd_template, "there is no '%s': want ls, verify or rm", name);
	for (; *words; words++)
		if ((code = take_word(r, kind, *words)))
			return code;
	return kind->act(r);
}

static int run(int argc, char **argv)
{
	struct request r = { 0 };
	struct err err;
	int code;

	if (usage_wants_help(argc, argv))
		return usage_help(&cmd_template);
	if (!loop_init(&r.loop, false, &err))
		return complain(&err);
	code = act(&r, argv + 1);
	loop_release(&r.loop);
	return code;
}

const struct cli_command cmd_template = {
	.name = "template",
	.args = "ls [--json] | verify [NAME] | rm NAME|--all",
	.does = "Look after the warmed machines on disk that new ones start from",
	.details =
		"NAME is that of an image, or scenario:NAME for that of a scenario.\n"
		"\n"
		"  ls         each template: room on disk, when it was made (UTC), whether it\n"
		"             fits or what changed since, and how many disks of old ones are "
		"kept\n"
		"  ls --json  the same for programs; the others have no such form\n"
		"  verify     compare its files with their SHA-256 of when it was made\n"
		"  rm         remove it with all old disks, and those of scenarios that stand on "
		"it;\n"
		"             what was recorded of trials stays, but for the disks "
		"(overlay.qcow2)\n"
		"             of those that began as its clones; snapshots of such machines can't "
		"be\n"
		"             used any more\n"
		"  rm --all   all templates\n\n"
		"The first machine of an image makes its template, and the first trial of a\n"
		"scenario makes one of the broken machine. One that does not fit is made anew, so\n"
		"it is safe to remove one when no trial runs, but for the disks of recorded "
		"trials\n"
		"and for snapshots.\n\n"
		"Exit code: 0 done, 1 when a template is damaged or not there or can't be read, 2 "
		"wrong\n"
		"use.\n\n"
		"Example: postern template ls\n"
		"         postern template rm scenario:port-squatter\n",
	.run = run,
};
