/* SPDX-License-Identifier: Apache-2.0 */
/* A machine that is gone afterwards: its image, its overlay, its boot. */
#include "disposable.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"

#define BOOT_MS 30000 /* times the accelerator's factor */

/* The overlay lives in a folder of its own; returns its path, owned. */
static char *make_overlay(struct disposable *d, struct err *err)
{
	CLEAN(str) char *parent = home_path("machines");
	char *scratch, *overlay;

	if (!dir_make(parent, err))
		return NULL;
	scratch = xasprintf("%s/%s.XXXXXX", parent, d->who);
	if (!mkdtemp(scratch)) {
		err_errno(err, "%s (point POSTERN_HOME to a folder that you may write to)", parent);
		free(scratch);
		return NULL;
	}
	d->scratch = scratch;
	overlay = xasprintf("%s/disk.qcow2", scratch);
	if (!overlay_create(overlay, d->image.disk, err)) {
		free(overlay);
		return NULL;
	}
	return overlay;
}

static void remove_scratch(struct disposable *d)
{
	struct err err;

	if (d->scratch && !dir_remove(d->scratch, &err))
		fprintf(stderr, "postern %s: %s\n", d->who, err.text);
	free(d->scratch);
	d->scratch = NULL;
}

static bool be_sealed(struct disposable *d, struct err *err)
{
	bool sealed;

	if (!machine_is_sealed(d->machine, &sealed, err))
		return false;
	return sealed ||
	       err_set(err, ERR_DENIED,
		       "this QEMU gave the machine a network device or another that it was not "
		       "asked for: "
		       "nothing was run; look for a wrapper of qemu-system-x86_64 in PATH");
}

bool disposable_boot(
	struct disposable *d, struct loop *loop, const char *image_name, struct err *err)
{
	CLEAN(str) char *overlay = NULL;
	struct machine_spec spec = { .image = &d->image };
	int64_t deadline;

	if (!image_open(image_name, &d->image, err))
		return false;
	if (d->image.disk && !(overlay = make_overlay(d, err)))
		return false;
	spec.overlay = overlay;
	d->machine = machine_start(loop, &spec, err);
	if (!d->machine)
		return false;
	deadline = clock_in((int64_t)BOOT_MS * accel_time_factor(machine_accel(d->machine)));
	if (!machine_wait_hello(d->machine, deadline, err))
		return false;
	/* QEMU has it open: without a name it can't be left behind, however we end. */
	remove_scratch(d);
	return be_sealed(d, err) && machine_wait_ready(d->machine, deadline, err);
}

void disposable_release(struct disposable *d)
{
	machine_free(d->machine);
	d->machine = NULL;
	remove_scratch(d);
	image_release(&d->image);
}
