/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about a whole machine: one word, and one line of JSON as the answer. */
#ifndef CONTROL_H
#define CONTROL_H

#include "base/json.h"
#include "base/loop.h"

struct control;

/* Answers a word, owned; NULL: later, by control_settle. */
typedef struct json *control_answer(void *self, const char *word);

/* Takes the listening socket; borrows the rest. */
struct control *control_new(struct loop *loop, int listener, control_answer *answer, void *self);
void control_free(struct control *c);
/* Answers all who wait for the answer to this word. */
void control_settle(struct control *c, const char *word, const struct json *answer);

/* The caller's side: waits for the answer, without any loop. Returns owned; NULL on failure. An
 * answer with "error" in it is a failure with that text. */
struct json *control_ask(const char *name, const char *word, int64_t milliseconds, struct err *err);

#endif
