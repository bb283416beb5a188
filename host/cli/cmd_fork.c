/* SPDX-License-Identifier: Apache-2.0 */
/* postern fork: a second machine that begins as a first one is. */
#include <stdio.h>

#include "base/json.h"
#include "command.h"
#include "ending.h"
#include "keeper/keeper.h"
#include "keeper/snapshots.h"
#include "keeper/visit.h"

#define STATUS_MS 10000

static void tell(void *self, const char *text)
{
	(void)self;
	fprintf(stderr, "postern fork: %s\n", text);
}

/* That of a snapshot may be made when the machine itself has ended. Returns owned. */
static struct json *describe(const struct keeper_spec *spec, struct err *err)
{
	struct json *j = spec->snapshot ? visit_describe(spec->from) : NULL;

	return j ? j : visit_ask(spec->from, "status", STATUS_MS, err);
}

static int fork_it(struct keeper_spec *spec, struct loop *loop)
{
	CLEAN(json) struct json *from = NULL;
	struct err err;
	int64_t ms = -1;

	from = describe(spec, &err);
	if (from) {
		spec->image = json_get_str(from, "image");
		spec->memory_mib = (int)json_get_int(from, "memory_mib", 0);
		fprintf(stderr, "postern fork: starting %s from %s%s%s\n", spec->name,
			spec->snapshot ? "the snapshot " : "",
			spec->snapshot ? spec->snapshot : spec->from,
			spec->snapshot ? "" : " as it is now");
		ms = keeper_start(loop, spec, tell, NULL, &err);
	}
	if (ms >= 0) {
		printf("%s is up after %.1f s\n", spec->name, (double)ms / 1000);
		return 0;
	}
	if (err.code == ERR_INTERRUPTED)
		ending_die_by(loop->signal);
	else
		ending_say("fork", "%s", err.text);
	return 1;
}

static int run(int argc, char **argv)
{
	struct keeper_spec spec = { 0 };
	struct loop loop;
	struct err err;
	int code;

	if (usage_wants_help(argc, argv))
		return usage_help(&cmd_fork);
	if (argc < 3 || argc > 4 || argv[1][0] == '-')
		return usage_error(&cmd_fork, "want the name of a machine, one for the new "
					      "machine, and perhaps that of a "
					      "snapshot");
	spec = (struct keeper_spec){
		.name = argv[2], .from = argv[1], .snapshot = argc > 3 ? argv[3] : NULL
	};
	if (!place_check_name(spec.from, &err) || !place_check_name(spec.name, &err) ||
		(spec.snapshot && !snapshots_check_name(spec.snapshot, &err)))
		return usage_error(&cmd_fork, "%s", err.text);
	if (!loop_init(&loop, true, &err))
		return ending_say("fork", "%s", err.text), 1;
	code = fork_it(&spec, &loop);
	loop_release(&loop);
	return code;
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
