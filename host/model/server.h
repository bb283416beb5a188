/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model server: where it is, what it is called, what its answers mean.
 *
 * How it works. server_find waits until the server has loaded its model and learns the model's name
 * and what its template can do. server_ask sends one request as often as it takes: again when the
 * server is busy, again with another seed when it could not read its model's own output (twice at
 * most), again after the server died and came back (within 30 s, three times at most).
 */
#ifndef SERVER_H
#define SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/loop.h"
#include "err.h"

struct server {
	struct loop *loop;
	char *base;	 /* the address without /v1 */
	const char *key; /* borrowed; NULL: none */
	char *model;	 /* as the server lists it, NULL: it lists none */
	bool one_call;	 /* its template shows one call per message only */

	/* Takes the event. NULL: nobody records. */
	void (*record)(void *self, struct json *event);
	void *record_self;
};

enum answer {
	ANSWER_REPLY,	  /* a chat completion */
	ANSWER_MALFORMED, /* the model's output could not be read, three times */
	ANSWER_CONTEXT,	  /* the request does not fit into the context */
	ANSWER_TIME,	  /* the deadline passed */
	ANSWER_FAILED,	  /* the server is to blame, or whoever named it */
	ANSWER_STOPPED,	  /* interrupted, or the host failed */
};

/* Borrows loop and key. False when the address or the key is no such thing. */
bool server_init(
	struct server *s, struct loop *loop, const char *url, const char *key, struct err *err);
void server_release(struct server *s);

/* ANSWER_REPLY: it is there and has its model loaded. All other ends set err. */
enum answer server_find(struct server *s, int64_t deadline, struct err *err);

/* Asks what the template can do; a server that does not tell can do all. */
enum answer server_learn(struct server *s, int64_t deadline, struct err *err);

/*
 * Sends a chat request, to which it may add a seed. ANSWER_REPLY returns the reply, an object,
 * owned; all other ends set err.
 */
enum answer server_ask(struct server *s, struct json *request, int turn, int64_t deadline,
	struct json **ret_reply, struct err *err);

#endif
