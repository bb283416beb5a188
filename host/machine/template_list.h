/* SPDX-License-Identifier: Apache-2.0 */
/* Templates as files: which there are, whether they are whole, and away with them. */
#ifndef TEMPLATE_LIST_H
#define TEMPLATE_LIST_H

#include <stdint.h>

#include "base/json.h"
#include "template.h"
#include "template_folder.h"

/* A template's name is that of its image, or scenario:NAME. */

/* Those of which there is a template, or disks of old ones: separated by ", ", those of scenarios
 * first since they stand on others. One that can't be looked into is among them, so that asking for
 * it tells why. Owned; NULL: none. */
bool template_names(char **ret_names, struct err *err);

/*
 * What there is of one template:
 *   name          its name
 *   image         the image's; null: unknown, as there are only disks of old ones
 *   scenario      the scenario's; null: it is the template of an image
 *   made          UTC; null: there are only disks of old ones
 *   fits          may a machine start from it? Whether the scenario changed is not seen here
 *   reason        why not; null: it fits
 *   bytes         on disk, all of it
 *   old_overlays  disks of templates that are gone
 * Owned; NULL on failure.
 */
struct json *template_describe(struct loop *loop, const char *name, struct err *err);

/* Compares its files with the hashes of when it was made. The first that differs is the error. */
bool template_verify(
	struct loop *loop, const char *name, template_notice *notice, void *self, struct err *err);

/* Removes all of it, once no machine is just starting from it. ret_removed: what that was. The
 * templates of scenarios that stand on an image's go before it, and each is told. */
bool template_remove(struct loop *loop, const char *name, template_notice *notice, void *self,
	struct folder_use *ret_removed, struct err *err);

#endif
