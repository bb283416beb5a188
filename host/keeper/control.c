/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about a whole machine. */
#include "control.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "door.h"
#include "place.h"

#define ASKERS_MAX 8	/* whose line has not come */
#define ROOM	   16	/* with those who wait for what takes long */
#define LINE_MS	   2000 /* for it to come */
#define LINE_ROOM  96	/* a word and a name */
#define ANSWER_MAX 65536

/* Who asks: a line up to its newline. */
struct asker {
	struct control *control;
	struct source source;
	char line[LINE_ROOM];
	size_t len;
	int64_t due;
	bool waits; /* for control_settle */
};

struct control {
	struct loop *loop;
	struct door door;
	struct asker *askers[ROOM];
	control_answer *answer;
	void *self;
};

static void asker_free(struct asker *a)
{
	struct control *c = a->control;

	for (int i = 0; i < ROOM; i++)
		if (c->askers[i] == a)
			c->askers[i] = NULL;
	loop_remove(c->loop, &a->source);
	fd_close(&a->source.fd);
	free(a);
}

/* Some lines fit the buffer of a socket that nothing was written to. */
static void say(const struct asker *a, const struct json *words)
{
	CLEAN(str) char *line = json_line(words);
	CLEAN(str) char *text = xasprintf("%s\n", line);

	(void)!send(a->source.fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void take_line(struct asker *a)
{
	struct control *c = a->control;
	CLEAN(json) struct json *answer = NULL;

	a->waits = true;
	answer = c->answer(c->self, a->line);
	if (!answer)
		return;
	say(a, answer);
	asker_free(a);
}

static void asker_ready(void *self, short events)
{
	struct asker *a = self;
	ssize_t n;
	char *end;

	if (!events) {
		asker_free(a);
		return;
	}
	n = recv(a->source.fd, a->line + a->len, sizeof(a->line) - a->len, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || a->waits) {
		asker_free(a);
		return;
	}
	a->len += (size_t)n;
	end = memchr(a->line, '\n', a->len);
	if (end) {
		*end = 0;
		take_line(a);
	} else if (a->len == sizeof(a->line)) {
		asker_free(a);
	}
}

static short asker_wants(const void *self)
{
	(void)self;
	return POLLIN;
}

/* Whoever says nothing keeps others out for a while, and not for ever. */
static int64_t asker_due(const void *self)
{
	const struct asker *a = self;

	return a->waits ? CLOCK_NEVER : a->due;
}

static struct asker **free_place(struct control *c)
{
	for (int i = 0; i < ROOM; i++)
		if (!c->askers[i])
			return &c->askers[i];
	return NULL;
}

static bool has_room(const void *self)
{
	const struct control *c = self;
	unsigned n = 0, asking = 0;

	for (int i = 0; i < ROOM; i++) {
		n += c->askers[i] != NULL;
		asking += c->askers[i] && !c->askers[i]->waits;
	}
	return n < ROOM && asking < ASKERS_MAX;
}

static void take(void *self, int fd)
{
	struct control *c = self;
	struct asker **place = free_place(c);
	struct asker *a = xcalloc(1, sizeof(*a));

	assert(place); /* the door has asked */
	a->control = c;
	a->due = clock_in(LINE_MS);
	a->source = (struct source){
		.fd = fd, .wants = asker_wants, .due = asker_due, .ready = asker_ready, .self = a
	};
	*place = a;
	loop_add(c->loop, &a->source);
}

struct control *control_new(struct loop *loop, int listener, control_answer *answer, void *self)
{
	struct control *c = xcalloc(1, sizeof(*c));

	*c = (struct control){ .loop = loop,
		.door = { .has_room = has_room, .take = take, .self = c },
		.answer = answer,
		.self = self };
	door_open(&c->door, loop, listener);
	return c;
}

void control_free(struct control *c)
{
	if (!c)
		return;
	for (int i = 0; i < ROOM; i++)
		if (c->askers[i])
			asker_free(c->askers[i]);
	door_close(&c->door, c->loop);
	free(c);
}

static bool waits_for(const struct asker *a, const char *line)
{
	return a && a->waits && (!line || !strcmp(a->line, line));
}

void control_notice(struct control *c, const char *line, const char *text)
{
	CLEAN(json) struct json *j = json_object();

	json_set_str(j, "notice", text);
	for (int i = 0; i < ROOM; i++)
		if (waits_for(c->askers[i], line))
			say(c->askers[i], j);
}

void control_settle(struct control *c, const char *line, const struct json *answer)
{
	for (int i = 0; i < ROOM; i++) {
		if (!waits_for(c->askers[i], line))
			continue;
		say(c->askers[i], answer);
		asker_free(c->askers[i]);
	}
}

static short question_wants(const void *self)
{
	return ((const struct question *)self)->over ? 0 : POLLIN;
}

/* Passes the notices on, and leaves the answer. */
static void take_notices(struct question *q)
{
	char *end;

	while (q->text.len && (end = memchr(q->text.data, '\n', q->text.len))) {
		size_t len = (size_t)(end - q->text.data) + 1;
		struct err err;
		CLEAN(json) struct json *j = json_parse(q->text.data, len, &err);
		const char *text = json_get_str(j, "notice");

		if (!text)
			return;
		if (q->notice)
			q->notice(q->self, text);
		memmove(q->text.data, q->text.data + len, q->text.len - len);
		q->text.len -= len;
	}
}

/* Reads up to the end. */
static void question_ready(void *self, short events)
{
	struct question *q = self;
	char chunk[4096];
	ssize_t n = recv(q->source.fd, chunk, sizeof(chunk), MSG_DONTWAIT);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && q->text.len <= ANSWER_MAX)
		buf_add(&q->text, chunk, (size_t)n);
	else
		q->over = true;
	take_notices(q);
}

bool question_put(struct question *q, struct loop *loop, const char *name, const char *line,
	template_notice *notice, void *self, struct err *err)
{
	CLEAN(str) char *said = xasprintf("%s\n", line);
	int fd = place_connect(name, "control", err);

	if (fd < 0)
		return false;
	if (send(fd, said, strlen(said), MSG_NOSIGNAL) != (ssize_t)strlen(said)) {
		err_errno(err, "the machine %s: its keeper can't be asked", name);
		close(fd);
		return false;
	}
	*q = (struct question){ .loop = loop, .name = name, .notice = notice, .self = self };
	q->source = (struct source){
		.fd = fd, .wants = question_wants, .ready = question_ready, .self = q
	};
	loop_add(loop, &q->source);
	return true;
}

bool question_is_over(const void *q)
{
	return ((const struct question *)q)->over;
}

struct json *question_end(struct question *q, struct err *err)
{
	CLEAN(json) struct json *answer = NULL;

	if (!q->over)
		err_set(err, ERR_TIME, "the machine %s: its keeper does not answer", q->name);
	else if (!q->text.len)
		err_set(err, ERR_PEER, "the machine %s: its keeper is gone", q->name);
	else if (!(answer = json_parse(q->text.data, q->text.len, err)))
		err_in(err, "the machine %s", q->name);
	loop_remove(q->loop, &q->source);
	fd_close(&q->source.fd);
	buf_release(&q->text);
	if (!json_get_str(answer, "error"))
		return json_take(&answer);
	err_set(err, ERR_DENIED, "%s", json_get_str(answer, "error"));
	return NULL;
}

struct json *control_ask(const char *name, const char *line, int64_t milliseconds,
	template_notice *notice, void *self, struct err *err)
{
	struct json *answer = NULL;
	struct question q;
	struct loop loop;

	if (!loop_init(&loop, false, err))
		return NULL;
	if (question_put(&q, &loop, name, line, notice, self, err)) {
		(void)!loop_until(&loop, question_is_over, &q, clock_in(milliseconds), err);
		answer = question_end(&q, err);
	}
	loop_release(&loop);
	return answer;
}
