/* SPDX-License-Identifier: Apache-2.0 */
/* Templates as files: which there are, whether they are whole, and away with them. */
#ifndef TEMPLATE_LIST_H
#define TEMPLATE_LIST_H

#include <stdint.h>

#include "base/json.h"
#include "template.h"
#include "template_folder.h"

/* Images that have a template, or disks of old ones: names separated by ", ". One that can't be
 * looked into is among them, so that asking for it tells why. Owned; NULL: none. */
bool template_names(char **ret_names, struct err *err);

/*
 * What there is of one image's template:
 *   image         its name
 *   made          UTC; null: there are only disks of old ones
 *   fits          may a machine start from it?
 *   reason        why not; null: it fits
 *   bytes         on disk, all of it
 *   old_overlays  disks of templates that are gone
 * Owned; NULL on failure.
 */
struct json *template_describe(struct loop *loop, const char *image, struct err *err);

/* Compares its files with the hashes of when it was made. The first that differs is the error. */
bool template_verify(
	struct loop *loop, const char *image, template_notice *notice, void *self, struct err *err);

/* Removes all of it, once no machine is just starting from it. ret_removed: what that was. */
bool template_remove(struct loop *loop, const char *image, template_notice *notice, void *self,
	struct folder_use *ret_removed, struct err *err);

#endif
