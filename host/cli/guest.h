/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that a command runs in: a new one that is gone afterwards, or a named one. */
#ifndef GUEST_H
#define GUEST_H

#include "disposable.h"
#include "keeper/visit.h"

/* Zeroed, but for box.who, is one that was never opened. */
struct guest {
	struct disposable box;
	struct visit visit;
	bool named;
};

/* Boots a new machine of the image, or reaches the named one; waits until its guest is up. Borrows
 * the loop. After a failure too, guest_release is due. */
bool guest_open(
	struct guest *g, struct loop *loop, const char *image, const char *name, struct err *err);
void guest_release(struct guest *g);

struct session *guest_session(const struct guest *g);
bool guest_is_gone(const struct guest *g);
const char *guest_image(const struct guest *g);
/* How much slower it may be than a guest under KVM. */
int guest_time_factor(const struct guest *g);
/* Why a command in it came to no end. Returns owned. */
char *guest_story(const struct guest *g, const struct command_result *r);

#endif
