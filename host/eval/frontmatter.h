/* SPDX-License-Identifier: Apache-2.0 */
/* The YAML head of a scenario.md: the only door to the YAML library. */
#ifndef FRONTMATTER_H
#define FRONTMATTER_H

#include <stdbool.h>
#include <stddef.h>

#include "err.h"

/* Zeroed is empty. All owned. */
struct front {
	char *title, *image;
	char *difficulty; /* easy, medium or hard. NULL: not said */
	char **tags;	  /* NULL-ended, or NULL */
	int turns, time_s;
	int memory_mib; /* 0: the image's */
	bool reboot;	/* between break.sh and the model's work */
};

/*
 * Reads the head between two lines "---" at the begin of text and says where the rest begins.
 * Errors name path and line.
 */
bool front_parse(const char *path, const char *text, size_t len, struct front *ret_front,
	size_t *ret_body, struct err *err);
void front_release(struct front *front);

#endif
