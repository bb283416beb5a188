/* SPDX-License-Identifier: Apache-2.0 */
/* postern reset: a named machine, new again. */
#include "base/json.h"
#include "command.h"
#include "named.h"

static int run(int argc, char **argv)
{
	CLEAN(json) struct json *done = NULL;
	char **names;

	if (usage_wants_help(argc, argv))
		return usage_help(&cmd_reset);
	names = usage_words(&cmd_reset, argc, argv, 1, 1, "want the name of one machine");
	if (!names)
		return 2;
	done = have_done("reset", names[0], "reset");
	return !done;
}

const struct cli_command cmd_reset = {
	.name = "reset",
	.args = "NAME",
	.does = "Make a named machine as new as at its start",
	.details = "The machine is ended as by a power cut and starts anew, with an empty overlay. "
		   "Commands\n"
		   "that run in it are lost; nobody has to connect anew. Ctrl-C does not stop it: "
		   "the machine\n"
		   "is reset all the same.\n\n"
		   "Exit code: 0 it is up again, 1 it is not, 2 wrong use.\n\n"
		   "Example: postern reset box\n",
	.run = run,
};
