/* SPDX-License-Identifier: Apache-2.0 */
/* The fastest way to a machine whose system is up. */
#include "start.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "preflight.h"

static bool make_overlay(const struct start_spec *spec, const char *below, struct err *err)
{
	if (spec->ret_below) {
		free(*spec->ret_below);
		*spec->ret_below = xstrdup(below);
	}
	return overlay_create(spec->overlay, below, err);
}

static struct machine *clone(
	struct loop *loop, const struct start_spec *spec, bool *ret_boots, struct err *err)
{
	const char *overlay = spec->image->disk ? spec->overlay : NULL;
	CLEAN(template) struct template t = { 0 };
	int64_t begin = clock_ms();
	bool open = template_open(loop, spec->image, spec->notice, spec->self, &t, ret_boots, err);

	if (spec->ret_template_ms)
		*spec->ret_template_ms = clock_ms() - begin;
	if (!open || (overlay && !make_overlay(spec, t.disk, err)))
		return NULL;
	return template_clone(loop, &t, overlay, spec->console_log, err);
}

static struct machine *boot(struct loop *loop, const struct start_spec *spec, struct err *err)
{
	const struct machine_spec cold = { .image = spec->image,
		.overlay = spec->image->disk ? spec->overlay : NULL,
		.console_log = spec->console_log,
		.memory_mib = spec->memory_mib };
	struct machine *m = NULL;
	int64_t deadline;

	if (cold.overlay && !make_overlay(spec, spec->image->disk, err))
		return NULL;
	m = machine_start(loop, &cold, err);
	deadline = m ? clock_in(machine_boot_ms(m)) : 0;
	if (m && machine_wait_hello(m, deadline, err) && machine_prove_sealed(m, err) &&
		machine_wait_ready(m, deadline, err))
		return m;
	machine_free(m);
	return NULL;
}

struct machine *machine_begin(
	struct loop *loop, const struct start_spec *spec, char **ret_cold, struct err *err)
{
	struct machine *m;
	bool boots;

	*ret_cold = NULL;
	if (!limits_suffice(spec->image->disk ? spec->overlay : NULL, err))
		return NULL;
	if (spec->memory_mib && spec->memory_mib != spec->image->memory_mib) {
		*ret_cold = xstrdup("the template has another size of memory");
		return boot(loop, spec, err);
	}
	m = clone(loop, spec, &boots, err);
	if (m || !boots || err->code == ERR_INTERRUPTED || err->code == ERR_DENIED)
		return m;
	*ret_cold = xstrdup(err->text);
	return boot(loop, spec, err);
}
