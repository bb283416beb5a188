/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots: a running machine, saved with its memory while it goes on.
 *
 * How it works. The guest freezes its disk, the machine stops, QEMU tells all of it into a file in
 * memory, its overlay is copied, and it goes on. A second QEMU, with its memory in another file,
 * loads all that. It never runs: the state of its devices is saved as for a template. So a snapshot
 * is the files of a template, in a folder of its own without a lock. A machine
 * starts from it as from a template, but with a copy of the disk as its overlay.
 */
#ifndef SNAPSHOT_H
#define SNAPSHOT_H

#include "base/json.h"
#include "template.h"

/* What is saved. All borrowed. */
struct snapshot_spec {
	struct machine *machine; /* up */
	const struct image *image;
	const struct json *key; /* template_key of when it was started */
	const char *overlay;	/* NULL: the image has no disk */
	const char *below;	/* what the overlay stands on */
	int memory_mib;
};

struct snapshot_taken {
	int64_t bytes; /* on disk */
	int64_t paused_ms;
};

/* Makes the folder. After a failure it is not there, and the machine goes on, but where
 * *ret_stands_still says that it can't. */
bool snapshot_take(struct loop *loop, const struct snapshot_spec *spec, const char *folder,
	struct snapshot_taken *ret_taken, bool *ret_stands_still, struct err *err);

/* Can a machine of the image be started from it? False, and why. */
bool snapshot_fits(
	struct loop *loop, const char *folder, const struct image *image, struct err *err);
/* Opens it for that. ERR_INPUT, and why, when it can't. The
 * disk that its own stands on goes to *ret_below, owned; NULL: there is none. */
bool snapshot_open(struct loop *loop, const char *folder, const struct image *image,
	struct template *ret_template, char **ret_below, struct err *err);

/* A copy of its disk, for the overlay of a machine that is cloned from it. Nothing to do when it
 * has none. */
bool snapshot_copy_disk(
	struct loop *loop, const struct template *t, const char *overlay, struct err *err);

/* An object with made, image, memory_mib, bytes (on disk) and below, the disk that its own stands
 * on. Returns owned; NULL: the folder holds no whole snapshot. */
struct json *snapshot_describe(const char *folder);
/* A second one of the same files. */
bool snapshot_link(const char *from, const char *to, struct err *err);

#endif
