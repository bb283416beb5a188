/* SPDX-License-Identifier: Apache-2.0 */
/* postern down: named machines, and what is left of them, away. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "command.h"
#include "ending.h"
#include "keeper/control.h"
#include "keeper/place.h"

#define DOWN_MS 60000

static int complain(const struct err *err)
{
	ending_say("down", "%s", err->text);
	return 1;
}

static bool down(const char *name, struct err *err)
{
	struct json *done;

	switch (place_look(name)) {
	case PLACE_NONE:
		return err_set(err, ERR_INPUT,
			"there is no machine %s: postern ls lists those that are there", name);
	case PLACE_KEPT:
		done = control_ask(name, "down", DOWN_MS, NULL, NULL, err);
		json_free(done);
		/* It may have ended by itself meanwhile. */
		if (!done && place_look(name) == PLACE_KEPT)
			return false;
		return done || place_clear(name, err);
	default:
		return place_clear(name, err);
	}
}

/* Machines of commands that run are not ours to end. */
static bool is_to_go(const char *name)
{
	return *name != '.' || place_look(name) == PLACE_LEFT;
}

static int down_all(void)
{
	CLEAN(str) char *names = place_names();
	char *rest = names, *name;
	struct err err;
	int code = 0;

	while (name = list_next(&rest), name)
		if (is_to_go(name) && !down(name, &err) && place_look(name) != PLACE_NONE)
			code = complain(&err);
	return code;
}

static int run(int argc, char **argv)
{
	bool all = argc == 2 && !strcmp(argv[1], "--all");
	struct err err;
	int code = 0;

	if (usage_wants_help(argc, argv))
		return usage_help(&cmd_down);
	if (argc < 2)
		return usage_error(&cmd_down, "want the names of machines, or --all");
	for (int i = 1; i < argc && !all; i++) {
		if (argv[i][0] == '-')
			return usage_error(&cmd_down, "%s is not understood", argv[i]);
		if (!place_check_any_name(argv[i], &err))
			return usage_error(&cmd_down, "%s", err.text);
	}
	if (all)
		return down_all();
	for (int i = 1; i < argc; i++)
		if (!down(argv[i], &err))
			code = complain(&err);
	return code;
}

const struct cli_command cmd_down = {
	.name = "down",
	.args = "NAME… | --all",
	.does = "End named machines, and clear away what is left of them",
	.details = "  --all  all of them, and what killed ones left behind\n\n"
		   "The machine is ended as by a power cut, and its disk removed. Of one that has "
		   "ended by\n"
		   "itself, or whose keeper was killed, the folder is removed.\n\n"
		   "Exit code: 0 they are gone, 1 one is not, or was not there, 2 wrong use.\n\n"
		   "Example: postern down box\n",
	.run = run,
};
