/* SPDX-License-Identifier: Apache-2.0 */
/* The fastest way to a machine whose system is up. */
#include "start.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/xalloc.h"

#define BOOT_MS	 60000 /* times the accelerator's factor */
#define CLONE_MS 10000 /* times the factor; it takes some tens of milliseconds */

static bool be_sealed(struct machine *m, struct err *err)
{
	bool sealed;

	if (!machine_is_sealed(m, &sealed, err))
		return false;
	return sealed ||
	       err_set(err, ERR_DENIED,
		       "this QEMU gave the machine a network device or another that it was not "
		       "asked for: look for a wrapper of qemu-system-x86_64 in PATH");
}

static struct machine *clone(struct loop *loop, const struct start_spec *spec, struct err *err)
{
	CLEAN(template) struct template t = { 0 };
	struct machine *m;

	if (!template_open(loop, spec->image, spec->notice, spec->self, &t, err) ||
		(t.disk && !overlay_create(spec->overlay, t.disk, err)))
		return NULL;
	m = template_clone(loop, &t, spec->overlay, spec->console_log, CLONE_MS, err);
	if (m && be_sealed(m, err))
		return m;
	machine_free(m);
	return NULL;
}

static struct machine *boot(struct loop *loop, const struct start_spec *spec, struct err *err)
{
	const struct machine_spec cold = { .image = spec->image,
		.overlay = spec->image->disk ? spec->overlay : NULL,
		.console_log = spec->console_log,
		.memory_mib = spec->memory_mib };
	struct machine *m = NULL;
	int64_t deadline;

	if (cold.overlay && !overlay_create(spec->overlay, spec->image->disk, err))
		return NULL;
	m = machine_start(loop, &cold, err);
	deadline = m ? clock_in((int64_t)BOOT_MS * accel_time_factor(machine_accel(m))) : 0;
	if (m && machine_wait_hello(m, deadline, err) && be_sealed(m, err) &&
		machine_wait_ready(m, deadline, err))
		return m;
	machine_free(m);
	return NULL;
}

struct machine *machine_begin(
	struct loop *loop, const struct start_spec *spec, char **ret_cold, struct err *err)
{
	struct machine *m;

	*ret_cold = NULL;
	if (spec->memory_mib && spec->memory_mib != spec->image->memory_mib) {
		*ret_cold = xstrdup("the template has another size of memory");
		return boot(loop, spec, err);
	}
	m = clone(loop, spec, err);
	if (m || err->code == ERR_INTERRUPTED || err->code == ERR_DENIED)
		return m;
	*ret_cold = xstrdup(err->text);
	return boot(loop, spec, err);
}
