/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that a command runs in. */
#include "guest.h"

#include "base/xalloc.h"

bool guest_open(
	struct guest *g, struct loop *loop, const char *image, const char *name, struct err *err)
{
	g->named = name;
	return name ? visit_open(&g->visit, loop, name, err)
		    : disposable_boot(&g->box, loop, image, err);
}

void guest_release(struct guest *g)
{
	visit_close(&g->visit);
	disposable_release(&g->box);
}

struct session *guest_session(const struct guest *g)
{
	return g->named ? g->visit.session : machine_session(g->box.machine);
}

bool guest_is_gone(const struct guest *g)
{
	return g->named ? session_broken(g->visit.session) != NULL
			: machine_state(g->box.machine) != MACHINE_RUNS;
}

const char *guest_image(const struct guest *g)
{
	return g->named ? g->visit.image : g->box.image.name;
}

int guest_time_factor(const struct guest *g)
{
	return g->named ? g->visit.time_factor : accel_time_factor(machine_accel(g->box.machine));
}

char *guest_story(const struct guest *g, const struct command_result *r)
{
	if (!g->named)
		return machine_story(g->box.machine);
	if (r->end == COMMAND_LOST && !session_broken(g->visit.session))
		return xstrdup(r->text);
	return visit_story(&g->visit);
}
