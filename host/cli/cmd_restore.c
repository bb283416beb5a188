/* SPDX-License-Identifier: Apache-2.0 */
/* postern restore: a named machine, as it was at a snapshot. */
#include <stdio.h>

#include "base/xalloc.h"
#include "command.h"
#include "ending.h"
#include "keeper/control.h"
#include "keeper/place.h"
#include "keeper/snapshots.h"
#include "keeper/visit.h"

static int run(int argc, char **argv)
{
	CLEAN(json) struct json *done = NULL;
	CLEAN(str) char *line = NULL;
	struct err err;

	if (usage_wants_help(argc, argv))
		return usage_help(&cmd_restore);
	if (argc < 2 || argc > 3 || argv[1][0] == '-')
		return usage_error(
			&cmd_restore, "want the name of a machine, and perhaps that of a snapshot");
	if (!place_check_name(argv[1], &err) || (argc > 2 && !snapshots_check_name(argv[2], &err)))
		return usage_error(&cmd_restore, "%s", err.text);
	line = xasprintf("restore%s%s", argc > 2 ? " " : "", argc > 2 ? argv[2] : "");
	done = visit_ask(argv[1], line, CONTROL_LONG_MS, &err);
	if (done) {
		printf("%s is as it was at the snapshot %s\n", argv[1], json_get_str(done, "name"));
		return 0;
	}
	ending_say("restore", "%s", err.text);
	return 1;
}

const struct cli_command cmd_restore = {
	.name = "restore",
	.args = "NAME [SNAPSHOT]",
	.does = "Take a named machine back to a snapshot",
	.details = "  SNAPSHOT  the one to go back to; the newest if none is named\n\n"
		   "Memory, programs and disk are as they were; the clock is right, and random "
		   "numbers are\n"
		   "new. What the machine is now is lost, with the commands that run in it; those "
		   "that ran\n"
		   "at the time of the snapshot are ended, while what they had left in the "
		   "background goes\n"
		   "on. Nobody has to connect anew. The snapshot stays.\n\n"
		   "Exit code: 0 it is back, 1 it is not, 2 wrong use.\n\n"
		   "Example: postern restore box before-upgrade\n",
	.run = run,
};
