/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about a whole machine. */
#include "control.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "door.h"
#include "place.h"

#define ASKERS_MAX 8	/* whose word has not come */
#define ROOM	   16	/* with those who wait for a reset, which are of one moment */
#define WORD_MS	   2000 /* for it to come */
#define WORD_ROOM  16
#define ANSWER_MAX 65536

/* Who asks: a word up to a newline. */
struct asker {
	struct control *control;
	struct source source;
	char word[WORD_ROOM];
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

/* A line fits the buffer of a socket that nothing was written to. */
static void say(struct asker *a, const struct json *answer)
{
	CLEAN(str) char *line = json_line(answer);
	CLEAN(str) char *text = xasprintf("%s\n", line);

	(void)!send(a->source.fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
	asker_free(a);
}

static void take_word(struct asker *a)
{
	struct control *c = a->control;
	CLEAN(json) struct json *answer = NULL;

	a->waits = true;
	answer = c->answer(c->self, a->word);
	if (answer)
		say(a, answer);
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
	n = recv(a->source.fd, a->word + a->len, sizeof(a->word) - a->len, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || a->waits) {
		asker_free(a);
		return;
	}
	a->len += (size_t)n;
	end = memchr(a->word, '\n', a->len);
	if (end) {
		*end = 0;
		take_word(a);
	} else if (a->len == sizeof(a->word)) {
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
	a->due = clock_in(WORD_MS);
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

void control_settle(struct control *c, const char *word, const struct json *answer)
{
	for (int i = 0; i < ROOM; i++)
		if (c->askers[i] && c->askers[i]->waits && !strcmp(c->askers[i]->word, word))
			say(c->askers[i], answer);
}

/* Reads up to the end. */
static bool read_answer(int fd, int64_t deadline, struct buf *out, struct err *err)
{
	for (;;) {
		struct pollfd pfd = { .fd = fd, .events = POLLIN };
		int64_t left = deadline - clock_ms();
		char chunk[4096];
		ssize_t n;

		if (left <= 0 || poll(&pfd, 1, (int)left) == 0)
			return err_set(err, ERR_TIME, "its keeper does not answer");
		n = recv(fd, chunk, sizeof(chunk), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n < 0)
			return err_errno(err, "its keeper can't be heard");
		if (n == 0)
			return out->len || err_set(err, ERR_PEER, "its keeper is gone");
		buf_add(out, chunk, (size_t)n);
		if (out->len > ANSWER_MAX)
			return err_set(err, ERR_PEER, "its keeper says too much");
	}
}

struct json *control_ask(const char *name, const char *word, int64_t milliseconds, struct err *err)
{
	CLEAN(fd) int fd = place_connect(name, "control", err);
	CLEAN(str) char *line = xasprintf("%s\n", word);
	CLEAN(json) struct json *answer = NULL;
	CLEAN(buf) struct buf text = { 0 };

	if (fd < 0)
		return NULL;
	if (send(fd, line, strlen(line), MSG_NOSIGNAL) != (ssize_t)strlen(line))
		err_errno(err, "its keeper can't be asked");
	else if (read_answer(fd, clock_in(milliseconds), &text, err))
		answer = json_parse(text.data, text.len, err);
	if (!answer) {
		err_in(err, "the machine %s", name);
	} else if (json_get_str(answer, "error")) {
		err_set(err, ERR_PEER, "%s", json_get_str(answer, "error"));
		return NULL;
	}
	return json_take(&answer);
}
