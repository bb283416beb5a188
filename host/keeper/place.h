/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of one machine, $POSTERN_HOME/machines/NAME.
 *
 *   lock           held by whoever keeps the machine for as long as he lives
 *   socket         named machines: the channel, for callers
 *   control        named machines: questions about the whole (control.h)
 *   machine.json   named machines: what it is; written when it is up
 *   ended.json     how it ended; its keeper is gone then
 *   disk.qcow2, console.log, keeper.log
 *   snapshots/     named machines: see snapshots.h
 *
 * The lock dies with its holder, so a folder without a holder and without ended.json was left
 * behind by one that was killed. Folders come and go under a lock on their parent, so that nobody
 * takes one that is being made for such a leftover. Machines that have no name, of postern exec and
 * shell, have the same folder under a name that begins with a dot, until QEMU has their disk open.
 */
#ifndef PLACE_H
#define PLACE_H

#include <stdbool.h>

#include "base/json.h"
#include "err.h"

/* Zeroed is none. */
struct place {
	char *name, *path; /* owned */
	int lock, dir;	   /* descriptors; 0: none */
};

/* A name that users give: [a-z0-9][a-z0-9._-]*, 63 bytes at most. */
bool place_check_name(const char *name, struct err *err);
/* The same, or one that a machine without a name has: .[A-Za-z0-9._-]+. It names nothing outside
 * the folder of all machines. */
bool place_check_any_name(const char *name, struct err *err);

/* Makes the folder and holds its lock. ERR_DENIED when there is one already. */
bool place_make(const char *name, struct place *ret_place, struct err *err);
/* The same under a name of its own, for a command of postern. */
bool place_make_unnamed(const char *who, struct place *ret_place, struct err *err);
/* Lets the lock go, and leaves the folder. */
void place_release(struct place *p);
/* Removes the folder, then the same. */
bool place_remove(struct place *p, struct err *err);

enum place_state {
	PLACE_NONE,
	PLACE_KEPT,  /* somebody holds the lock */
	PLACE_ENDED, /* nobody does, and ended.json says why */
	PLACE_LEFT,  /* nobody does: its keeper was killed */
};
enum place_state place_look(const char *name);
/* Removes a folder that nobody keeps. */
bool place_clear(const char *name, struct err *err);
/* Names of all that can be machines, sorted, joined by blanks. Returns owned. */
char *place_names(void);

/* A file of the folder. Returns owned. */
char *place_file(const char *name, const char *file);
/* A JSON file of it. Returns owned; NULL: there is none, or it can't be read. */
struct json *place_json(const char *name, const char *file);
bool place_write_json(
	const struct place *p, const char *file, const struct json *j, struct err *err);

/* A listening UNIX socket in the folder, and a connection to it; both don't block. -1 on failure.
 * They work however long the path is. */
int place_listen(const struct place *p, const char *file, struct err *err);
int place_connect(const char *name, const char *file, struct err *err);

#endif
