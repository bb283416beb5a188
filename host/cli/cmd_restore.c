/* SPDX-License-Identifier: Apache-2.0 */
/* postern restore: a named machine, as it was at a snapshot. */
#include <stdio.h>

#include "base/xalloc.h"
#include "command.h"
#include "keeper/place.h"
#include "keeper/snapshots.h"
#include "named.h"

static int run(int argc, char **argv)
{
	CLEAN(json) struct json *done = NULL;
	CLEAN(str) char *line = NULL;
	struct err err;
	char **names;

	if (usage_wants_help(argc, argv))
		return usage_help(&cmd_restore);
	names = usage_words(&cmd_restore, argc, argv, 1, 2,
		"want the name of a machine, and perhaps that of a snapshot");
	if (!names)
		return 2;
	if (!place_check_name(names[0], &err) ||
		(names[1] && !snapshots_check_name(names[1], &err)))
		return usage_error(&cmd_restore, "%s", err.text);
	line = snapshots_line("restore", names[1]);
	done = have_done("restore", names[0], line);
	if (!done)
		return 1;
	printf("%s is as it was at the snapshot %s\n", names[0], json_get_str(done, "name"));
	return 0;
}

const struct cli_command cmd_restore = {
	.name = "restore",
	.args = "NAME [SNAPSHOT]",
	.does = "Take a named machine back to a snapshot",
	.details =
		"  SNAPSHOT  the one to go back to; the newest if none is named\n\n"
		"Memory, programs and disk are as they were; the clock is right, and random "
		"numbers are\n"
		"new. What the machine is now is lost, with the commands that run in it; those "
		"that ran\n"
		"at the time of the snapshot are ended, while what they had left in the "
		"background goes\n"
		"on. Nobody has to connect anew. The snapshot stays. Ctrl-C does not stop it.\n\n"
		"Exit code: 0 it is back, 1 it is not, 2 wrong use.\n\n"
		"Example: postern restore box before-upgrade\n",
	.run = run,
};
