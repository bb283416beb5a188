/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The snapshots of named machines: $POSTERN_HOME/machines/NAME/snapshots/SNAPSHOT.
 *
 * One is made as `.new` and renamed when it is whole, and renamed to that again before it is
 * removed. So what a keeper that was killed leaves has that name, and goes with the next one.
 */
#ifndef SNAPSHOTS_H
#define SNAPSHOTS_H

#include "machine/snapshot.h"

/* What that of a fork is called, when it was taken for it. */
#define SNAPSHOT_OF_FORK "fork"

/* What a keeper is asked: a word, and this name if there is one. Returns owned. */
char *snapshots_line(const char *word, const char *snapshot);
/* As names of machines are. */
bool snapshots_check_name(const char *snapshot, struct err *err);
/* An array of what snapshot_describe tells, and name; the oldest first. Returns owned. */
struct json *snapshots_list(const char *machine);
/* Adds to each of such a list, as reason, why no machine can be started from it; null: one can. */
void snapshots_judge(struct loop *loop, const char *machine, struct json *list);
/* The folder of this one (NULL: of the newest), its name to *ret_name; both owned. NULL when it is
 * not there. */
char *snapshots_find(const char *machine, const char *snapshot, char **ret_name, struct err *err);

/* False also when it is not there. */
bool snapshots_remove(const char *machine, const char *snapshot, struct err *err);

/* Saves it as a snapshot of that machine's, whose folder must be there. snapshot NULL: the number
 * after the highest. *ret_name: what it is called, owned. */
bool snapshots_take(struct loop *loop, const struct snapshot_spec *spec, const char *machine,
	const char *snapshot, char **ret_name, struct snapshot_taken *ret_taken,
	bool *ret_stands_still, struct err *err);
/* Another machine has it too, under the same name. */
bool snapshots_share(const char *machine, const char *snapshot, const char *with, struct err *err);

#endif
