/* SPDX-License-Identifier: Apache-2.0 */
/* Which limit of this host would keep one more machine from running. */
#ifndef PREFLIGHT_H
#define PREFLIGHT_H

#include <stdbool.h>

#include "err.h"

enum limit {
	LIMIT_DESCRIPTORS,
	LIMIT_PROCESSES, /* threads count as such */
	LIMIT_MEMORY,	 /* MiB */
	LIMIT_DISK,	 /* MiB */
	LIMITS,
};

/* What is left of it; of LIMIT_DISK in that folder, or its nearest parent that is there. -1: it has
 * no end, or can't be told. */
long long limit_left(enum limit limit, const char *folder);
/* What any machine takes. */
long long limit_least(enum limit limit);
/* What to do about too little. Static text. */
const char *limit_remedy(enum limit limit);

/* ERR_LIMIT, when a machine certainly could not run. folder: of its overlay; NULL: it has none. */
bool limits_suffice(const char *folder, struct err *err);

#endif
