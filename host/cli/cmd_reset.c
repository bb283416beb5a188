/* SPDX-License-Identifier: Apache-2.0 */
/* postern reset: a named machine, new again. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "ending.h"
#include "keeper/control.h"
#include "keeper/visit.h"

#define RESET_MS 900000 /* a boot, emulated, on a busy host */

/* One without a keeper is told as one that can't be visited. */
static bool reset(const char *name, struct err *err)
{
	struct json *done = NULL;

	if (visit_check(name, err))
		done = control_ask(name, "reset", RESET_MS, err);
	json_free(done);
	return done;
}

static int run(int argc, char **argv)
{
	struct err err;

	if (usage_wants_help(argc, argv))
		return usage_help(&cmd_reset);
	if (argc != 2 || argv[1][0] == '-')
		return usage_error(&cmd_reset, "want the name of one machine");
	if (reset(argv[1], &err))
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
