/* SPDX-License-Identifier: Apache-2.0 */
/* Boots, warms and saves a machine. */
#ifndef TEMPLATE_MAKE_H
#define TEMPLATE_MAKE_H

#include "machine.h"
#include "template_pages.h"

/* Paths borrowed. */
struct template_files {
	const char *memory, *state;
	const char *disk; /* NULL: the image has none */
};

/* Makes the files; the machine is gone then. *ret_boots is set to false when it did not come up. */
bool template_make(struct loop *loop, const struct image *image, enum accel accel,
	const struct template_files *files, char ret_memory_hash[PAGES_HASH], bool *ret_boots,
	struct err *err);

#endif
