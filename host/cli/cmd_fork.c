/* SPDX-License-Identifier: Apache-2.0 */
/* postern fork: a second machine that begins as a first one is. */
#include <stdio.h>

#include "base/json.h"
#include "command.h"
#include "ending.h"
#include "keeper/snapshots.h"
#include "keeper/visit.h"
#include "named.h"

/* That of a snapshot may be made when the machine itself has ended. Returns owned. */
static struct json *describe(const struct keeper_spec *spec, struct err *err)
{
	CLEAN(json) struct json *j = spec->snapshot ? visit_describe(spec->from) : NULL;

	/* Of one that never came up there is nothing to tell. */
	return json_get_str(j, "image") ? json_take(&j) : visit_status(spec->from, err);
}

static int run(int argc, char **argv)
{
	CLEAN(json) struct json *from = NULL;
	struct keeper_spec spec;
	struct err err;
	char **names;

	if (usage_wants_help(argc, argv))
		return usage_help(&cmd_fork);
	names = usage_words(&cmd_fork, argc, argv, 2, 3,
		"want the name of a machine, one for the new machine, and perhaps that of a "
		"snapshot");
	if (!names)
		return 2;
	spec = (struct keeper_spec){ .name = names[1], .from = names[0], .snapshot = names[2] };
	if (!place_check_name(spec.from, &err) || !place_check_name(spec.name, &err) ||
		(spec.snapshot && !snapshots_check_name(spec.snapshot, &err)))
		return usage_error(&cmd_fork, "%s", err.text);
	from = describe(&spec, &err);
	if (!from)
		return ending_say("fork", "%s", err.text), 1;
	spec.image = json_get_str(from, "image");
	spec.memory_mib = (int)json_get_int(from, "memory_mib", 0);
	fprintf(stderr, "postern fork: starting %s from %s%s%s\n", spec.name,
		spec.snapshot ? "the snapshot " : "", spec.snapshot ? spec.snapshot : spec.from,
		spec.snapshot ? "" : " as it is now");
	return start_named("fork", &spec);
}

const struct cli_command cmd_fork = {
	.name = "fork",
	.args = "NAME NEW [SNAPSHOT]",
	.does = "Start a second machine that begins as a first one is",
	.details =
		"  NEW       the name of the second machine, which must not be there yet\n"
		"  SNAPSHOT  begin as the first one was at this snapshot of it, which may be that "
		"of a\n"
		"            machine that has ended; without it the first machine is saved for "
		"this, and\n"
		"            stands still meanwhile, as for postern snapshot\n\n"
		"From then on neither knows of the other: each has memory, disk, clock and random "
		"numbers of\n"
		"its own. Commands that run in the first go on there, and are ended in the second. "
		"The "
		"second\n"
		"has the snapshot that it began from, named fork unless it was named already, so "
		"that\n"
		"postern restore NEW takes it back to its beginning; postern reset NEW makes it a "
		"new "
		"machine\n"
		"of the image.\n\n"
		"Exit code: 0 it is up, 1 it is not, 2 wrong use.\n\n"
		"Example: postern fork box trial\n"
		"         postern exec -n trial -- rm -rf /etc/nginx\n"
		"         postern down trial\n",
	.run = run,
};
