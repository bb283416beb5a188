/* SPDX-License-Identifier: Apache-2.0 */
/* The whole environment of a guest's command: what the user wants, and defaults. */
#include "environment.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

static const char *const defaults[] = {
	SEARCH_PATH_PAIR,
	"LANG=C.UTF-8",
	"TERM=dumb",
	NULL,
};

static const char *const of_root[] = {
	"HOME=/root",
	"USER=root",
	"LOGNAME=root",
	"SHELL=/bin/sh",
	NULL,
};

/* Where the variable of this pair stands, or would be added. */
static size_t place_of(const struct environment *e, const char *pair)
{
	size_t name = strcspn(pair, "="), i = 0;

	while (i < e->n && strncmp(e->pairs[i], pair, name + 1) != 0)
		i++;
	return i;
}

const char *environment_set(struct environment *e, const char *pair)
{
	size_t name = strcspn(pair, "="), place;

	if (!name || !pair[name])
		return "want NAME=VALUE";
	place = place_of(e, pair);
	if (place == ENV_MAX)
		return "there are too many variables before it";
	e->pairs[place] = pair;
	if (place == e->n)
		e->n++;
	return NULL;
}

static void add_missing(struct environment *e, const char *pair)
{
	if (place_of(e, pair) == e->n)
		(void)environment_set(e, pair);
}

void environment_fill(struct environment *e, bool is_root, bool terminal)
{
	const char *term = getenv("TERM");

	if (terminal && term && *term) {
		e->term = xasprintf("TERM=%s", term);
		add_missing(e, e->term);
	}
	for (const char *const *pair = defaults; *pair; pair++)
		add_missing(e, *pair);
	for (const char *const *pair = of_root; is_root && *pair; pair++)
		add_missing(e, *pair);
}

void environment_release(struct environment *e)
{
	free(e->term);
	*e = (struct environment){ 0 };
}
