/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scripted model server: a child process that answers HTTP requests one by one and keeps them.
 *
 * GETs of /v1/models, /props and /health have fixed answers; everything else takes the next step of
 * the script. After the last step it answers as if the model had nothing to say.
 */
#ifndef FAKE_SERVER_H
#define FAKE_SERVER_H

#include <stddef.h>
#include <sys/types.h>

#define FAKE_REQUESTS	   64
#define FAKE_REQUEST_BYTES (256 << 10)

struct fake_step {
	int status;	    /* 0: 200 */
	const char *body;   /* with "hang": never answers; "close": hangs up; "die": ends */
	const char *header; /* one more line, NULL: none */
};

struct fake_request {
	char head[2048];
	char body[FAKE_REQUEST_BYTES];
};

/* Shared with the child. */
struct fake_seen {
	size_t requests; /* those that took a step */
	size_t looks;	 /* the others */
	size_t hung_up;	 /* clients that left while the answer hung */
	struct fake_request request[FAKE_REQUESTS];
};

struct fake_server {
	pid_t pid;
	char url[64];
	struct fake_seen *seen;
};

struct fake_spec {
	const struct fake_step *steps;
	size_t count;
	const char *props;   /* NULL: HTTP 404 */
	int models_status;   /* 0: 200 */
	size_t loading;	     /* that many looks get HTTP 503 first */
	unsigned short port; /* 0: any */
};

void fake_start(struct fake_server *server, const struct fake_spec *spec);
void fake_stop(struct fake_server *server);

#endif
