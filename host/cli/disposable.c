/* SPDX-License-Identifier: Apache-2.0 */
/* A machine that is gone afterwards: its image, its overlay, its boot. */
#include "disposable.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/xalloc.h"

/* The overlay will live in a folder of its own; returns its path, owned. */
static char *make_scratch(struct disposable *d, struct err *err)
{
	CLEAN(str) char *parent = home_path("machines");
	char *scratch;

	if (!dir_make(parent, err))
		return NULL;
	scratch = xasprintf("%s/%s.XXXXXX", parent, d->who);
	if (!mkdtemp(scratch)) {
		err_errno(err, "%s (point POSTERN_HOME to a folder that you may write to)", parent);
		free(scratch);
		return NULL;
	}
	d->scratch = scratch;
	return xasprintf("%s/disk.qcow2", scratch);
}

static void remove_scratch(struct disposable *d)
{
	struct err err;

	if (d->scratch && !dir_remove(d->scratch, &err))
		fprintf(stderr, "postern %s: %s\n", d->who, err.text);
	free(d->scratch);
	d->scratch = NULL;
}

static void tell(void *self, const char *text)
{
	const struct disposable *d = self;

	fprintf(stderr, "postern %s: %s\n", d->who, text);
}

bool disposable_boot(
	struct disposable *d, struct loop *loop, const char *image_name, struct err *err)
{
	CLEAN(str) char *overlay = NULL;
	CLEAN(str) char *cold = NULL;
	struct start_spec spec = { .image = &d->image, .notice = tell, .self = d };

	if (!image_open(image_name, &d->image, err))
		return false;
	if (d->image.disk && !(overlay = make_scratch(d, err)))
		return false;
	spec.overlay = overlay;
	d->machine = machine_begin(loop, &spec, &cold, err);
	if (d->machine && cold)
		fprintf(stderr,
			"postern %s: the machine was booted, not started from a template: %s\n",
			d->who, cold);
	/* QEMU has it open: without a name it can't be left behind, however we end. */
	remove_scratch(d);
	return d->machine;
}

void disposable_release(struct disposable *d)
{
	machine_free(d->machine);
	d->machine = NULL;
	remove_scratch(d);
	image_release(&d->image);
}
