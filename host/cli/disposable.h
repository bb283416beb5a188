/* SPDX-License-Identifier: Apache-2.0 */
/* A machine that is gone afterwards: its image, its overlay, its boot. */
#ifndef DISPOSABLE_H
#define DISPOSABLE_H

#include <stdbool.h>

#include "base/loop.h"
#include "err.h"
#include "keeper/place.h"
#include "machine/image.h"
#include "machine/start.h"

/* Zeroed is one that was never booted. */
struct disposable {
	const char *who; /* "exec": the command of postern that complains */
	struct image image;
	struct place place; /* of the overlay; none, or gone already */
	struct machine *machine;
};

/* Boots the image of that name and waits until the guest is up. Borrows the loop. After a failure
 * too, disposable_release is due. */
bool disposable_boot(
	struct disposable *d, struct loop *loop, const char *image_name, struct err *err);
void disposable_release(struct disposable *d);

#endif
