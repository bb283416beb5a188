/* SPDX-License-Identifier: Apache-2.0 */
/* What takes long with a named machine. */
#include "named.h"

#include <stdint.h>
#include <stdio.h>

#include "ending.h"
#include "keeper/control.h"
#include "keeper/visit.h"

static void tell(void *command, const char *text)
{
	fprintf(stderr, "postern %s: %s\n", (const char *)command, text);
}

int start_named(const char *command, const struct keeper_spec *spec)
{
	struct loop loop;
	struct err err;
	int64_t ms;

	if (!loop_init(&loop, true, &err))
		return ending_say(command, "%s", err.text), 1;
	ms = keeper_start(&loop, spec, tell, (void *)(uintptr_t)command, &err);
	loop_release(&loop);
	if (ms >= 0) {
		printf("%s is up after %.1f s\n", spec->name, (double)ms / 1000);
		return 0;
	}
	if (err.code == ERR_INTERRUPTED)
		ending_die_by(loop.signal);
	else
		ending_say(command, "%s", err.text);
	return 1;
}

struct json *have_done(const char *command, const char *name, const char *line)
{
	struct err err;
	struct json *done =
		visit_ask(name, line, CONTROL_LONG_MS, tell, (void *)(uintptr_t)command, &err);

	if (!done)
		ending_say(command, "%s", err.text);
	return done;
}
