/* SPDX-License-Identifier: Apache-2.0 */
/* What a template depends on: when any of it changes, the template is of no use. */
#ifndef TEMPLATE_KEY_H
#define TEMPLATE_KEY_H

#include "accel.h"
#include "base/json.h"
#include "image.h"

/* base: id of the template that it is made from; NULL: it is made from a boot. Returns owned: name
 * of each input -> text. */
struct json *template_key(
	const struct image *image, int memory_mib, enum accel accel, const char *base);
/* The name of the first input that differs, borrowed from is; NULL: none does. */
const char *template_key_differs(const struct json *is, const struct json *was);

#endif
