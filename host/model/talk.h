/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One conversation of a model about one scenario, over /v1/chat/completions of llama-server or any
 * server of that kind.
 *
 * How it works. One system message, one user message, then turns: a reply, its calls run one after
 * the other, their results. All waiting is done in the loop, so machines go on being served. The
 * rules of history hygiene (ids, arguments, markers) are applied here and nowhere else.
 */
#ifndef TALK_H
#define TALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/loop.h"
#include "err.h"

/* What the shell of the machine made of a command. */
enum shell_end {
	SHELL_RAN,    /* text tells it; the conversation goes on */
	SHELL_OFF,    /* the machine was powered off: the conversation ends */
	SHELL_CLOSED, /* the machine can't be reached any more: the conversation ends */
	SHELL_HOST,   /* the host failed or the user interrupted; err is set */
};

struct talk_spec {
	const char *url; /* of the server, with or without /v1 */
	const char *key; /* bearer key, NULL: none */
	const char *system, *user;
	int turns;	 /* replies of the model, at most */
	int64_t time_ms; /* wall time for all of it */

	/* Runs a command; adds its text for the model (already cut and repaired) to out. */
	enum shell_end (*shell)(void *self, const char *command, int64_t timeout_s,
		size_t max_output, struct buf *out, struct err *err);
	/* Every request, reply and result, complete, as it happens. Takes the event. */
	void (*record)(void *self, struct json *event);
	/* For people who watch: one line, e.g. "turn 3: systemctl status nginx". */
	void (*progress)(void *self, int turn, const char *what);
	void *self;
};

enum talk_end {
	TALK_ANSWERED, /* two replies without a call in a row: the first gets a nudge */
	TALK_TURNS,    /* limit: turns */
	TALK_TIME,     /* limit: time */
	TALK_CONTEXT,  /* the server's context is full */
	TALK_EMPTY,    /* nothing of use twice in a row: empty, cut off or unreadable replies */
	TALK_REPEATED, /* the same call with the same result five times in a row */
	TALK_OFF,      /* the machine was powered off */
	TALK_CLOSED,   /* channel closed by the guest */
	TALK_SERVER,   /* the server failed: reason says how. Unscored */
};
const char *talk_end_name(enum talk_end end); /* "answered", "turns", ... */

struct talk_result {
	enum talk_end end;
	int turns;				  /* replies that counted */
	int calls;				  /* commands run */
	int64_t prompt_tokens, completion_tokens; /* as the server says, summed */
	char model[128];			  /* as the server says, printable */
	char reason[512]; /* one sentence, with the limit's value where one fired */
};

/* False only when interrupted or the host failed; everything else is in the result. */
bool talk_run(struct loop *loop, const struct talk_spec *spec, struct talk_result *ret_result,
	struct err *err);

/* Is a server there that will answer? The error names which of: not reachable, still loading (waits
 * for that until the deadline), wrong path, key refused. */
bool talk_probe(
	struct loop *loop, const char *url, const char *key, int64_t deadline, struct err *err);

/*
 * Output of a command as a model may see it: head and tail with the number of bytes between, cut
 * on UTF-8 boundaries; bad UTF-8 repaired, control characters made visible, chat markers broken.
 */
void output_for_model(const void *untrusted_data, size_t len, size_t max, struct buf *out);

#endif
