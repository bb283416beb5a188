/* SPDX-License-Identifier: Apache-2.0 */
/* The fastest way to a machine whose system is up: a clone of a template, else a cold boot. */
#ifndef START_H
#define START_H

#include "template.h"

struct start_spec {
	const struct image *image; /* borrowed until machine_free */
	const char *overlay;	   /* made here, when the image has a disk */
	const char *console_log;   /* as in machine_spec */
	int memory_mib;		   /* 0: the image's. Another has no template */
	template_notice *notice;   /* NULL: silence */
	void *self;
	char **ret_below;	  /* the disk that the overlay stands on, owned; or NULL */
	int64_t *ret_template_ms; /* until the template was at hand, made or waited for; or NULL */
};

/* Starts, proves that it is sealed, and waits until it is ready. ret_cold is NULL after a clone,
 * else why the machine was booted: one sentence, owned by the caller. */
struct machine *machine_begin(
	struct loop *loop, const struct start_spec *spec, char **ret_cold, struct err *err);

#endif
