/* SPDX-License-Identifier: Apache-2.0 */
/* From new files of a template to one that others may open. */
#ifndef TEMPLATE_STORE_H
#define TEMPLATE_STORE_H

#include "template_folder.h"
#include "template_make.h"

/* May the plan's files find room? */
bool store_has_room(const struct folder *f, const struct template_plan *plan, struct err *err);
/* Puts the new files in place of the old ones. All of them are on disk then. */
bool store_files(const struct folder *f, const struct template_plan *plan, const struct json *key,
	const struct template_made *made, struct err *err);

#endif
