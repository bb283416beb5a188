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
 * A scenario's template is made from the image's: a machine begins as a clone of that one, but
 * writes to a copy of its memory; it is changed, settles, and is kept in the same way. Its disk
 * stands on that of the image's template.
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
	struct folder *folder;	   /* owned, with its lock. NULL: of a snapshot */
	struct folder *base;	   /* the same of the one that it was made from. NULL: a boot */
	char *id;		   /* owned */
	int memory_mib;
	char *memory;	   /* owned; a file of that size */
	char *disk;	   /* owned; qcow2 for overlays. NULL: the image has none */
	struct buf state;  /* of the devices */
	struct json *said; /* owned; what its change had to tell */
};

/* What is done to a machine of an image before it is kept. */
struct template_change {
	const char *scenario;	   /* its name */
	const struct json *inputs; /* what the change depends on: name -> text */
	int memory_mib;		   /* of the machine; 0: the image's */
	/* Does it, in a machine that is up. *ret_said: what is to be told of it, owned. */
	bool (*apply)(void *self, struct machine *m, struct json **ret_said, struct err *err);
	void *self;
};

/* Told before something that takes long, in one sentence without a full stop. */
typedef void template_notice(void *self, const char *text);

/* Opens the template of an image; makes it if there is none that fits. Waits for another process
 * that makes it. notice may be NULL. After a failure *ret_avoidable is false when it was the boot
 * that failed, as any boot of the image would. */
bool template_open(struct loop *loop, const struct image *image, template_notice *notice,
	void *self, struct template *ret_template, bool *ret_avoidable, struct err *err);
/* The same of a changed machine. *ret_avoidable is false also when the change failed. */
bool template_open_changed(struct loop *loop, const struct image *image,
	const struct template_change *change, template_notice *notice, void *self,
	struct template *ret_template, bool *ret_avoidable, struct err *err);
void template_release(struct template *t);

/* Why no machine with this key may start from what is in the folder: "none", "files" (some are
 * missing or damaged), or the input that changed. NULL: it fits, and t is filled from there.
 * Borrowed from the key; image and size of memory of t are set before. */
const char *template_check(const struct folder *f, const struct json *key, struct template *t);
/* The same for people, without a full stop. Owned. */
char *template_reason(const char *why);

static inline void template_clean(struct template *t)
{
	template_release(t);
}

/* Starts a clone and waits until it is healed: it is sealed, and as ready as the template was. */
struct machine *template_clone(struct loop *loop, const struct template *t, const char *overlay,
	const char *console_log, struct err *err);

#endif
