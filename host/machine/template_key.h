/* SPDX-License-Identifier: Apache-2.0 */
/* What a template depends on: when any of it changes, the template is of no use. */
#ifndef TEMPLATE_KEY_H
#define TEMPLATE_KEY_H

#include "accel.h"
#include "base/json.h"
#include "image.h"

/* Returns owned. */
struct json *template_key(const struct image *image, enum accel accel);
/* The name of the first input that differs, static text; NULL: none does. */
const char *template_key_differs(const struct json *is, const struct json *was);

#endif
