/* SPDX-License-Identifier: Apache-2.0 */
/* A named machine, as those who use it see it. */
#ifndef VISIT_H
#define VISIT_H

#include "base/loop.h"
#include "link/session.h"
#include "machine/template.h"

/* Zeroed is none. Strings owned. */
struct visit {
	char *name, *image;
	struct session *session;
	int time_factor;
};

/* Reaches the machine's guest, and waits until it is there if it reboots. Borrows the loop. After a
 * failure too, visit_close is due. */
bool visit_open(struct visit *v, struct loop *loop, const char *name, struct err *err);
/* Ends what still runs for us there. */
void visit_close(struct visit *v);
/* One sentence about what the machine does, or how it ended. Returns owned. */
char *visit_story(const struct visit *v);

/* Asks its keeper (control.h). Returns owned; NULL: there is no such machine, it has ended,
 * or it did not do that. */
struct json *visit_ask(const char *name, const char *line, int64_t milliseconds,
	template_notice *notice, void *self, struct err *err);
/* The same for how the machine is. */
struct json *visit_status(const char *name, struct err *err);

/* What there is to know about a machine, as a JSON object with name, state (up, starting,
 * restarting, ended, left behind, busy), why, image, memory_mib, uptime_s, operations, callers,
 * keeper (null when it is gone). Returns owned; NULL: there is no such machine, or it is one of a
 * command that runs. */
struct json *visit_describe(const char *name);

#endif
