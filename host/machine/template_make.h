/* SPDX-License-Identifier: Apache-2.0 */
/* Boots, warms and saves a machine. */
#ifndef TEMPLATE_MAKE_H
#define TEMPLATE_MAKE_H

#include "machine.h"

/* Makes the three files; disk is NULL when the image has none. */
bool template_make(struct loop *loop, const struct image *image, enum accel accel,
	const char *memory, const char *state, const char *disk, struct err *err);

#endif
