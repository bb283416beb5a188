/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of one template: of an image, IMAGE, or of a scenario, scenario:NAME.
 *
 *   lock           shared: machines start from the template; exclusive: it is made or removed
 *   template.json  what it depends on, the id of its files, their hashes; written last
 *   ID.memory, ID.state, ID.qcow2
 *   new.*          files of one that is being made
 *   other .qcow2   disks of templates that are gone: records of trials may stand on them
 *
 * What else is found there was left behind by a making that was killed.
 */
#ifndef TEMPLATE_FOLDER_H
#define TEMPLATE_FOLDER_H

#include <stdint.h>

#include "base/json.h"
#include "base/loop.h"
#include "err.h"
#include "template.h"

#define FOLDER_KINDS	3
#define FOLDER_SCENARIO "scenario:" /* no image's name has a colon */

/* "memory", "state", "qcow2". */
extern const char *const folder_kinds[FOLDER_KINDS];

/* Strings owned. The lock goes with it. */
struct folder {
	char *title; /* "image server" */
	char *path;
	int lock;
};

/* Makes the folder when it is not there. NULL on failure. */
struct folder *folder_open(const char *name, struct err *err);
/* Files of the same kinds in another folder, which has no lock. Returns owned. */
struct folder *folder_at(const char *path);
/* "image server", "scenario port-squatter": what the template of this name is of. Returns owned. */
char *folder_title(const char *name);
/* NULL is fine. */
void folder_free(struct folder *f);

static inline void folder_clean(struct folder **f)
{
	folder_free(*f);
}

/* LOCK_SH or LOCK_EX of flock(). Changing one for the other lets others in between. Tells when it
 * takes long; gives up after some minutes. */
bool folder_lock(struct loop *loop, const struct folder *f, int how, template_notice *notice,
	void *self, struct err *err);

/* The file of a template with this id. Returns owned. */
char *folder_file(const struct folder *f, const char *id, const char *kind);
/* template.json. Returns owned; NULL: there is none, or it can't be read. */
struct json *folder_manifest(const struct folder *f);
bool folder_has_manifest(const struct folder *f);
bool folder_write_manifest(const struct folder *f, const struct json *manifest, struct err *err);
/* The template is none any more; its files stay until the next one is made. */
void folder_drop_manifest(const struct folder *f);

/* Removes what no template and no record needs. id: of the template that stays, NULL: none. */
void folder_sweep(const struct folder *f, const char *id);

/* All but the lock. */
struct folder_use {
	int files;
	int64_t bytes;	  /* on disk */
	int disks;	  /* that records of trials may stand on */
	int old_overlays; /* those of templates that are gone */
};

/* id: of the template, NULL: none. */
bool folder_measure(
	const struct folder *f, const char *id, struct folder_use *ret_use, struct err *err);
/* Removes all of it but the lock. */
bool folder_empty(const struct folder *f, struct err *err);

#endif
