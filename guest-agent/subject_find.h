/* SPDX-License-Identifier: Apache-2.0 */
/* `subject find`. */
#ifndef SUBJECT_FIND_H
#define SUBJECT_FIND_H

#include "subject_out.h"

/* Prints path and what is below it. dir is its descriptor, or -1 when it is no folder. */
bool subject_find(struct out *out, int dir, const char *path);

#endif
