/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine of a keeper: how it begins, is made new, saved, taken back to what was saved, and
 * ends.
 *
 * What is started, saved or restored here takes a while: it waits in the keeper's loop, which goes
 * on with all else.
 */
#ifndef KEPT_H
#define KEPT_H

#include "base/json.h"
#include "keeper.h"
#include "switchboard.h"
#include "watch.h"

/* Zeroed but for what is borrowed. */
struct kept {
	const struct keeper_spec *spec; /* borrowed, as are the next four */
	const struct place *place;
	struct loop *loop;
	template_notice *notice;
	void *self; /* of notice */

	struct switchboard *board; /* the owner's, set before the machine begins */
	struct image image;
	char *overlay, *console; /* paths, owned */
	struct machine *machine; /* NULL while it starts */
	struct json *key;	 /* what its state depends on: see template_key */
	char *below;		 /* the disk that its overlay stands on, owned */
	struct watch watch;
	struct source look; /* for the guest's end of the channel */
	int64_t since;	    /* when it was up */
	bool away;	    /* the guest's end of the channel was closed: no caller reaches it */
	unsigned greetings; /* of the guest that was there then */
	bool stands_still;  /* it can't go on */
};

int kept_memory(const struct kept *k);
/* As its keeper's spec says: new, or a fork. */
bool kept_begin(struct kept *k, struct err *err);
/* Ends it; callers wait. */
void kept_end(struct kept *k);
/* Did something keep a guest that was saved from being healed? It can be tried again, for a little
 * while each time. */
bool kept_is_frozen(const struct kept *k);
void kept_thaw(struct kept *k);
/* How it is, into an object. */
void kept_describe(const struct kept *k, struct json *j);

/* What can be asked for. name: of a snapshot, or NULL; of a machine that is to be a fork. What
 * there is to tell goes to done. A failure may leave no machine, or one that stands still. */
bool kept_reset(struct kept *k, const char *name, struct json *done, struct err *err);
bool kept_snapshot(struct kept *k, const char *name, struct json *done, struct err *err);
bool kept_restore(struct kept *k, const char *name, struct json *done, struct err *err);
bool kept_forget(struct kept *k, const char *name, struct json *done, struct err *err);
bool kept_fork(struct kept *k, const char *name, struct json *done, struct err *err);

#endif
