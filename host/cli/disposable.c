/* SPDX-License-Identifier: Apache-2.0 */
/* A machine that is gone afterwards: its image, its overlay, its boot. */
#include "disposable.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/xalloc.h"

/* The overlay will live in a folder of its own; returns its path, owned. */
static char *make_place(struct disposable *d, struct err *err)
{
	if (!place_make_unnamed(d->who, &d->place, err))
		return NULL;
	return xasprintf("%s/disk.qcow2", d->place.path);
}

static void remove_place(struct disposable *d)
{
	struct err err;

	if (!place_remove(&d->place, &err))
		fprintf(stderr, "postern %s: %s\n", d->who, err.text);
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
	if (d->image.disk && !(overlay = make_place(d, err)))
		return false;
	spec.overlay = overlay;
	d->machine = machine_begin(loop, &spec, &cold, err);
	if (d->machine && cold)
		fprintf(stderr,
			"postern %s: the machine was booted, not started from a template: %s\n",
			d->who, cold);
	/* QEMU has it open: without a name it can't be left behind, however we end. */
	remove_place(d);
	return d->machine;
}

void disposable_release(struct disposable *d)
{
	machine_free(d->machine);
	d->machine = NULL;
	remove_place(d);
	image_release(&d->image);
}
