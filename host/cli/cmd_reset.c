/* SPDX-License-Identifier: Apache-2.0 */
/* postern reset: a named machine, new again. */
#include <string.h>

#include "base/json.h"
#include "command.h"
#include "ending.h"
#include "keeper/control.h"
#include "keeper/visit.h"

static int run(int argc, char **argv)
{
	CLEAN(json) struct json *done = NULL;
	struct err err;

	if (usage_wants_help(argc, argv))
		return usage_help(&cmd_reset);
	if (argc != 2 || argv[1][0] == '-')
		return usage_error(&cmd_reset, "want the name of one machine");
	done = visit_ask(argv[1], "reset", CONTROL_LONG_MS, &err);
	if (done)
		return 0;
	ending_say("reset", "%s", err.text);
	return 1;
}

const struct cli_command cmd_reset = {
	.name = "reset",
	.args = "NAME",
	.does = "Make a named machine as new as at its start",
	.details = "The machine is ended as by a power cut and starts anew, with an empty overlay. "
		   "Commands\n"
		   "that run in it are lost; nobody has to connect anew.\n\n"
		   "Exit code: 0 it is up again, 1 it is not, 2 wrong use.\n\n"
		   "Example: postern reset box\n",
	.run = run,
};
