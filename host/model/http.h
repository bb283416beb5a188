/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP request after the other, waited for in the poll loop.
 *
 * Every request has a connection of its own, and leaving early closes it: that is what makes a
 * model server stop generating. No proxy of the environment is used, because the model server is
 * named explicitly and is mostly on this host; no redirect is followed.
 */
#ifndef HTTP_H
#define HTTP_H

#include <stdint.h>

#include "base/buf.h"
#include "base/loop.h"
#include "err.h"

#define HTTP_REPLY_MAX (8 << 20) /* bytes of a reply's body */

struct http_request {
	const char *url;
	const char *key;  /* bearer key, NULL: none */
	const char *body; /* JSON to POST, NULL: GET */
	int64_t deadline; /* on clock_ms() */
};

struct http_reply {
	int status;
	struct buf body;
};

enum http_end {
	HTTP_ANSWERED, /* with whatever status */
	HTTP_GONE,     /* nobody listens, or the connection broke off */
	HTTP_FAILED,   /* anything that another try would not mend */
	HTTP_TIME,     /* the deadline passed */
	HTTP_STOPPED,  /* interrupted, or the host failed */
};

/* All but HTTP_ANSWERED set err. Adds to ret_reply->body, which the caller releases. */
enum http_end http_run(struct loop *loop, const struct http_request *request,
	struct http_reply *ret_reply, struct err *err);

#endif
