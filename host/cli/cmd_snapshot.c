/* SPDX-License-Identifier: Apache-2.0 */
/* postern snapshot: a named machine saved with its memory, while it goes on. */
#include <getopt.h>
#include <stdio.h>

#include "base/xalloc.h"
#include "command.h"
#include "ending.h"
#include "keeper/place.h"
#include "keeper/snapshots.h"
#include "named.h"

#define MIB 1048576

enum { OPTION_LS = LONG_OPTION, OPTION_RM, OPTION_JSON };

/* What was asked for. */
struct request {
	const char *machine;
	const char *snapshot; /* NULL: none was named */
	const char *forget;   /* the one to remove, or NULL */
	bool list, json;
};

static int complain(const struct err *err)
{
	ending_say("snapshot", "%s", err->text);
	return 1;
}

static void print_json(const struct json *j)
{
	CLEAN(str) char *text = json_pretty(j);

	puts(text);
}

static double seconds(const struct json *j, const char *key)
{
	return (double)json_get_int(j, key, 0) / 1000;
}

static int take(const struct request *r)
{
	CLEAN(str) char *line = snapshots_line("snapshot", r->snapshot);
	CLEAN(json) struct json *done = have_done("snapshot", r->machine, line);

	if (!done)
		return 1;
	if (r->json)
		print_json(done);
	else
		printf("snapshot %s of %s took %.1f s and %lld MiB; the machine stood still for "
		       "%.2f s\n",
			json_get_str(done, "name"), r->machine, seconds(done, "took_ms"),
			(long long)(json_get_int(done, "bytes", 0) / MIB),
			seconds(done, "paused_ms"));
	return 0;
}

static int forget(const struct request *r)
{
	CLEAN(str) char *line = snapshots_line("forget", r->forget);
	CLEAN(json) struct json *done = have_done("snapshot", r->machine, line);

	return !done;
}

static void print_one(const struct json *one)
{
	const char *reason = json_get_str(one, "reason");

	printf("%-24s %-20s  %6lld MiB  %-4s%s%s\n", json_get_str(one, "name"),
		json_get_str(one, "made"), (long long)(json_get_int(one, "bytes", 0) / MIB),
		reason ? "no" : "yes", reason ? "  " : "", reason ? reason : "");
}

static int list(const struct request *r)
{
	CLEAN(json) struct json *all = json_object();
	struct json *list = json_set(all, "snapshots", snapshots_list(r->machine));
	struct loop loop;
	struct err err;

	if (place_look(r->machine) == PLACE_NONE) {
		err_set(&err, ERR_INPUT,
			"there is no machine %s: postern ls lists those that are there",
			r->machine);
		return complain(&err);
	}
	if (!loop_init(&loop, false, &err))
		return complain(&err);
	snapshots_judge(&loop, r->machine, list);
	loop_release(&loop);
	if (r->json) {
		print_json(all);
		return 0;
	}
	if (!json_len(list))
		printf("%s has no snapshots: postern snapshot %s takes one\n", r->machine,
			r->machine);
	else
		printf("%-24s %-20s  %10s  %s\n", "NAME", "MADE", "ON DISK", "FITS");
	for (size_t i = 0; i < json_len(list); i++)
		print_one(json_at(list, i));
	return 0;
}

/* False: a wrong use, which was told. */
static bool parse_options(struct request *r, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "ls", no_argument, NULL, OPTION_LS },
		{ "rm", required_argument, NULL, OPTION_RM },
		{ "json", no_argument, NULL, OPTION_JSON },
		{ 0 },
	};
	struct err err;
	int option;

	while ((option = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		if (option == ':' || option == '?') {
			option_refused(option, argv, &err);
			return usage_error(&cmd_snapshot, "%s", err.text), false;
		}
		r->list = r->list || option == OPTION_LS;
		r->json = r->json || option == OPTION_JSON;
		if (option == OPTION_RM)
			r->forget = optarg;
	}
	return true;
}

static bool parse(struct request *r, int argc, char **argv)
{
	struct err err;
	int words;

	if (!parse_options(r, argc, argv))
		return false;
	words = argc - optind;
	if (words < 1 || words > (r->list || r->forget ? 1 : 2))
		return usage_error(&cmd_snapshot,
			       r->list || r->forget ? "want the name of one machine"
						    : "want the name of a machine, and perhaps one "
						      "for the snapshot"),
		       false;
	if (r->forget && (r->list || r->json))
		return usage_error(&cmd_snapshot, "--rm goes with no other option"), false;
	r->machine = argv[optind];
	r->snapshot = words > 1 ? argv[optind + 1] : NULL;
	if (!place_check_name(r->machine, &err) ||
		(r->snapshot && !snapshots_check_name(r->snapshot, &err)) ||
		(r->forget && !snapshots_check_name(r->forget, &err)))
		return usage_error(&cmd_snapshot, "%s", err.text), false;
	return true;
}

static int run(int argc, char **argv)
{
	struct request r = { 0 };

	if (usage_wants_help(argc, argv))
		return usage_help(&cmd_snapshot);
	if (!parse(&r, argc, argv))
		return 2;
	if (r.list)
		return list(&r);
	return r.forget ? forget(&r) : take(&r);
}

const struct cli_command cmd_snapshot = {
	.name = "snapshot",
	.args = "NAME [SNAPSHOT] [--json] | NAME --ls [--json] | NAME --rm SNAPSHOT",
	.does = "Save a named machine with its memory, while it goes on",
	.details = "  SNAPSHOT       its name, as one of a machine; a number if there is none\n"
		   "  --ls           list the snapshots of the machine: when each was made (UTC), "
		   "room on\n"
		   "                 disk, whether it fits or why a machine can't be started from "
		   "it\n"
		   "  --rm SNAPSHOT  remove this one\n"
		   "  --json         tell the same for programs\n\n"
		   "Memory, running programs and disk are saved as they are at one moment. The "
		   "machine\n"
		   "stands still meanwhile, for a second or two with the images of postern; "
		   "commands in "
		   "it\n"
		   "wait, and go on. Ctrl-C does not stop it. Snapshots take room on disk, up to "
		   "the size of memory and "
		   "what was\n"
		   "written to the disk, and are gone with postern down. One can't be used any "
		   "more when "
		   "the\n"
		   "image, QEMU or postern changed, or the image's template was removed.\n\n"
		   "Exit code: 0 done, 1 not so, 2 wrong use.\n\n"
		   "Example: postern snapshot box before-upgrade\n"
		   "         postern snapshot box --ls\n"
		   "         postern restore box before-upgrade\n",
	.run = run,
};
