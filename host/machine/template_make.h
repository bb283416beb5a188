/* SPDX-License-Identifier: Apache-2.0 */
/* From a machine that is up to the files of a template. */
#ifndef TEMPLATE_MAKE_H
#define TEMPLATE_MAKE_H

#include "base/json.h"
#include "template.h"
#include "template_pages.h"

/* All is borrowed. */
struct template_plan {
	const struct image *image;
	const struct template *base;	      /* the machine begins as its clone. NULL: it boots */
	const struct template_change *change; /* NULL: none */
	int memory_mib;
	enum accel accel;
};

/* Paths borrowed. */
struct template_files {
	const char *memory, *state;
	const char *disk; /* NULL: the image has none */
};

/* Zeroed is empty. */
struct template_made {
	char memory_hash[SHA256_TEXT]; /* "": not known yet, and the file may not be on disk */
	struct json *said;	       /* owned; of the change */
};

static inline void template_made_clean(struct template_made *made)
{
	json_free(made->said);
}

/* Makes the files; the machine is gone then. *ret_avoidable is set to false when it did not come
 * up, or can't be changed. */
bool template_make(struct loop *loop, const struct template_plan *plan,
	const struct template_files *files, struct template_made *ret_made, bool *ret_avoidable,
	struct err *err);

/* Wakes a machine that waits for the state of a template. One that fails takes the template's
 * manifest away: it is trusted no more. */
bool template_wake(struct machine *m, const struct template *t, struct err *err);

#endif
