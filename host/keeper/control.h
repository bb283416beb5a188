/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about a whole machine: one word, perhaps a name behind it, and one line of JSON as the
 * answer; before that, of what takes long, lines with a "notice". */
#ifndef CONTROL_H
#define CONTROL_H

#include "base/buf.h"
#include "base/json.h"
#include "base/loop.h"
#include "machine/template.h"

/* A reset, a snapshot, a restore: with a boot, emulated, on a busy host. */
#define CONTROL_LONG_MS 900000

struct control;

/* Answers a line, owned; NULL: later, by control_settle. */
typedef struct json *control_answer(void *self, const char *line);

/* Takes the listening socket; borrows the rest. */
struct control *control_new(struct loop *loop, int listener, control_answer *answer, void *self);
void control_free(struct control *c);
/* Tells all who wait for the answer to this line. */
void control_notice(struct control *c, const char *line, const char *text);
/* Answers all who wait for the answer to this line; NULL: to any. */
void control_settle(struct control *c, const char *line, const struct json *answer);

/* The caller's side. */
struct question {
	struct loop *loop;
	const char *name;	 /* of the machine, borrowed */
	template_notice *notice; /* or NULL */
	void *self;
	struct source source;
	struct buf text;
	bool over;
};

/* Asks, and takes a place in the loop up to question_end. */
bool question_put(struct question *q, struct loop *loop, const char *name, const char *line,
	template_notice *notice, void *self, struct err *err);
/* Has the answer come? For loop_until. */
bool question_is_over(const void *q);
/* Returns the answer, owned; NULL on failure. One with "error" in it is ERR_DENIED with that text.
 */
struct json *question_end(struct question *q, struct err *err);

/* All of that, without a loop of the caller's. */
struct json *control_ask(const char *name, const char *line, int64_t milliseconds,
	template_notice *notice, void *self, struct err *err);

#endif
