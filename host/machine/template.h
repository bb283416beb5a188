/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates: warmed machines on disk, from which others start in milliseconds.
 *
 * How it works. A template is made on first use: a machine of the image boots with its memory in a
 * file, settles, freezes its disk and stops; what stays is the memory file, the state of the
 * devices, and the disk's overlay, all never written to again. A clone maps the memory privately,
 * gets an overlay of its own, loads the state and is healed (machine_wake). template.json holds
 * everything the template depends on; when any of it has changed it is made anew.
 *
 * Whoever has opened a template holds a lock that keeps others from replacing or removing it until
 * it is released. A template whose clone fails is not trusted: the next to ask makes it anew.
 * Old overlays are kept while the others go, since records of trials may stand on them.
 */
#ifndef TEMPLATE_H
#define TEMPLATE_H

#include "machine.h"

struct folder;
struct json;

struct template
{
	const struct image *image; /* borrowed */
	struct folder *folder;	   /* owned, with its lock */
	char *memory;		   /* owned; a file as large as the machine's memory */
	char *disk;		   /* owned; qcow2 for overlays. NULL: the image has none */
	struct buf state;	   /* of the devices */
};

/* Told before something that takes long, in one sentence without a full stop. */
typedef void template_notice(void *self, const char *text);

/* Opens the template of an image; makes it if there is none that fits. Waits for another process
 * that makes it. notice may be NULL. After a failure *ret_boots is false when it was the boot that
 * failed, as any boot of the image would. */
bool template_open(struct loop *loop, const struct image *image, template_notice *notice,
	void *self, struct template *ret_template, bool *ret_boots, struct err *err);
void template_release(struct template *t);

/* Why no machine with this key may start from what is in the folder: "none", "files" (some are
 * missing or damaged), or the input that changed. NULL: it fits, and t is filled from there.
 * Static text; t->image is set before. */
const char *template_check(const struct folder *f, const struct json *key, struct template *t);
/* The same for people, without a full stop. Owned. */
char *template_reason(const char *why);

static inline void template_clean(struct template *t)
{
	template_release(t);
}

/* Starts a clone and waits until it is healed: it is sealed, and as ready as the template was.
 * limit_ms: times the accelerator's factor. */
struct machine *template_clone(struct loop *loop, const struct template *t, const char *overlay,
	const char *console_log, int64_t limit_ms, struct err *err);

#endif
