/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The history of one conversation, and replies on their way into it.
 *
 * How it works. A reply is read tolerantly into a struct reply; nothing of it is in the history
 * until chat_add puts in the message and one result for each of its calls, at once. What goes in is
 * clean: ids of nine letters and digits, arguments that are JSON objects, text that is a string.
 */
#ifndef CHAT_H
#define CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"

#define CHAT_CALLS 64 /* of one reply; those beyond are forgotten */

struct chat {
	struct json *messages;
	bool one_call; /* write a reply with several calls as so many messages */
	unsigned last_id;
};

struct call {
	const char *untrusted_name;
	struct json *untrusted_arguments; /* an object; NULL: broken */
	char broken[200];		  /* the beginning of what came instead */
};

struct reply {
	struct json *root; /* everything below borrows from it */
	const char *untrusted_text, *untrusted_reasoning;
	bool cut; /* it ended at the length limit */
	size_t calls;
	struct call call[CHAT_CALLS];
};

void chat_init(struct chat *chat, const char *system, const char *user);
void chat_release(struct chat *chat);

/* Returns owned: the body of the next request. model may be NULL. */
struct json *chat_request(const struct chat *chat, const char *model);

/* Takes root. Never fails: what is missing or of another kind counts as absent. */
void reply_read(struct reply *reply, struct json *root);
void reply_release(struct reply *reply);

/* One result, not empty, for each call of the reply. */
void chat_add(struct chat *chat, const struct reply *reply, char *const *results);

/* A user message after a reply without calls. */
void chat_add_user(struct chat *chat, const char *text);

#endif
