/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a check said: TAP, read strictly. Pure.
 *
 * The text comes from a machine whose root may be hostile, so nothing is guessed: each line is a
 * result, a diagnostic of the result above it, or the one plan, first or last. A result that is
 * missing, repeated or out of order, a skip, a second plan or any other line is an error.
 */
#ifndef TAP_H
#define TAP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clean.h"
#include "err.h"

#define TAP_CHECKS	256  /* results, at most */
#define TAP_NAME	100  /* bytes of a name, its NUL included */
#define TAP_DIAGNOSTICS 8192 /* bytes of diagnostics that are kept of one result */

struct tap_check {
	char name[TAP_NAME]; /* printable ASCII */
	bool ok;
	char *diagnostics; /* printable ASCII and line ends, owned. NULL: none */
};

struct tap {
	struct tap_check *checks; /* owned */
	size_t len, failed;
};

/* False when it is not TAP or not all of it; what was read so far is in the result all the same. */
bool tap_parse(const char *untrusted_text, size_t len, struct tap *ret_tap, struct err *err);
void tap_release(struct tap *tap);

static inline void tap_clean(struct tap *tap)
{
	tap_release(tap);
}

#endif
