/* SPDX-License-Identifier: Apache-2.0 */
/* Saving and loading through a socketpair. */
#include "migrate.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define STATE_MAX (64 << 20) /* bytes; what we have seen has some hundred kilobytes */
#define CHUNK	  (256 << 10)
#define FD_NAME	  "state"     /* of QEMU's end, to QEMU */
#define UNLIMITED (1LL << 40) /* bytes a second: a default of QEMU's is for networks */
#define END_MS	  30000	      /* for a migration that fails to be over */
#define LOOK_MS	  10

/* Our end of the socket. */
struct stream {
	struct source source;
	struct loop *loop;
	const enum migration *progress;
	const struct qmp *qmp;
	int fd;
	bool loads;
	struct buf *in;	       /* what is saved goes here */
	const struct buf *out; /* what is loaded comes from here */
	int file;	       /* of all with the memory: instead of both */
	off_t moved, size;     /* bytes; size: in all, or at most */
	bool ended;	       /* nothing more comes, or goes */
	bool broken;	       /* it did not come or go whole */
	struct err why;	       /* if we know */
};

void migration_event(enum migration *progress, const struct json *data)
{
	const char *status = json_get_str(data, "status");

	if (status && !strcmp(status, "completed"))
		*progress = MIGRATION_DONE;
	else if (status && (!strcmp(status, "failed") || !strcmp(status, "cancelled")))
		*progress = MIGRATION_FAILED;
}

static short wants(const void *self)
{
	const struct stream *s = self;

	if (s->ended)
		return 0;
	return s->loads ? POLLOUT : POLLIN;
}

static bool keep(struct stream *s, const char *chunk, size_t len)
{
	s->moved += (off_t)len;
	if (s->moved > s->size)
		return err_set(
			&s->why, ERR_LIMIT, "it is larger than %lld bytes", (long long)s->size);
	if (!s->in)
		return fd_write(s->file, chunk, len, &s->why);
	buf_add(s->in, chunk, len);
	return true;
}

static void receive(struct stream *s)
{
	static char chunk[CHUNK];
	ssize_t n = recv(s->fd, chunk, sizeof(chunk), 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && keep(s, chunk, (size_t)n))
		return;
	s->ended = true;
	s->broken = n != 0;
}

static ssize_t put(struct stream *s)
{
	size_t left = (size_t)(s->size - s->moved);
	ssize_t n;

	if (!s->out)
		return sendfile(s->fd, s->file, &s->moved, left < CHUNK ? left : CHUNK);
	n = send(s->fd, s->out->data + s->moved, left, MSG_NOSIGNAL);
	s->moved += n > 0 ? n : 0;
	return n;
}

static void transmit(struct stream *s)
{
	if (put(s) < 0 && errno != EAGAIN && errno != EINTR)
		s->ended = s->broken = true;
	s->ended = s->ended || s->moved == s->size;
	/* QEMU learns from the end that nothing is missing. */
	if (s->ended)
		(void)shutdown(s->fd, SHUT_WR);
}

static void ready(void *self, short events)
{
	struct stream *s = self;

	(void)events;
	if (s->loads)
		transmit(s);
	else
		receive(s);
}

static bool over(const void *arg)
{
	const struct stream *s = arg;

	return *s->progress == MIGRATION_FAILED || s->broken || qmp_closed(s->qmp) ||
	       (*s->progress == MIGRATION_DONE && s->ended);
}

/* shared: memory that is shared with a file stays out. */
static bool enable(struct qmp *qmp, bool shared, int64_t deadline, struct err *err)
{
	static const char *const names[] = { "events", "x-ignore-shared" };
	const bool states[] = { true, shared };
	struct json *arguments = json_object();
	struct json *list = json_set(arguments, "capabilities", json_array());

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct json *capability = json_add(list, json_object());

		json_set_str(capability, "capability", names[i]);
		json_set_bool(capability, "state", states[i]);
	}
	return qmp_call(qmp, "migrate-set-capabilities", arguments, deadline, NULL, err);
}

static bool begin(struct qmp *qmp, const char *command, int64_t deadline, struct err *err)
{
	struct json *arguments = json_object();

	json_set_str(arguments, "uri", "fd:" FD_NAME);
	return qmp_call(qmp, command, arguments, deadline, NULL, err);
}

static bool move(struct stream *s, struct qmp *qmp, enum migration *progress, int64_t deadline,
	struct err *err)
{
	CLEAN(fd) int ours = -1, theirs = -1;
	const bool shared = s->in || s->out;
	bool ok;

	*progress = MIGRATION_NONE;
	if (!enable(qmp, shared, deadline, err) || !fd_pair(&ours, &theirs, err) ||
		!qmp_give_fd(qmp, FD_NAME, theirs, deadline, err))
		return false;
	fd_close(&theirs);
	s->fd = ours;
	s->progress = progress;
	s->qmp = qmp;
	s->source = (struct source){ .fd = ours, .wants = wants, .ready = ready, .self = s };
	loop_add(s->loop, &s->source);
	ok = begin(qmp, s->loads ? "migrate-incoming" : "migrate", deadline, err);
	if (!ok)
		*progress = MIGRATION_FAILED;
	ok = ok && loop_until(s->loop, over, s, deadline, err);
	loop_remove(s->loop, &s->source);
	if (s->why.code)
		*err = s->why;
	if (!ok || s->why.code)
		return err_in(err, s->loads ? "loading the state of the machine"
					    : "saving the state of the machine");
	return (*progress == MIGRATION_DONE && !s->broken) ||
	       err_set(err, ERR_SYSTEM, "QEMU failed to %s the state of the machine",
		       s->loads ? "load" : "save");
}

bool state_save(struct loop *loop, struct qmp *qmp, enum migration *progress, struct buf *ret_state,
	int64_t deadline, struct err *err)
{
	struct stream s = { .loop = loop, .in = ret_state, .size = STATE_MAX };

	return move(&s, qmp, progress, deadline, err);
}

bool state_load(struct loop *loop, struct qmp *qmp, enum migration *progress,
	const struct buf *state, int64_t deadline, struct err *err)
{
	struct stream s = { .loop = loop, .loads = true, .out = state, .size = (off_t)state->len };

	return move(&s, qmp, progress, deadline, err);
}

bool whole_load(struct loop *loop, struct qmp *qmp, enum migration *progress, int file,
	int64_t deadline, struct err *err)
{
	struct stream s = {
		.loop = loop, .loads = true, .file = file, .size = lseek(file, 0, SEEK_END)
	};

	return move(&s, qmp, progress, deadline, err);
}

static bool unlimit(struct qmp *qmp, int64_t deadline, struct err *err)
{
	struct json *arguments = json_object();

	json_set_int(arguments, "max-bandwidth", UNLIMITED);
	return qmp_call(qmp, "migrate-set-parameters", arguments, deadline, NULL, err);
}

/* It says that it is done a moment before it may go on. */
static bool may_go_on(struct loop *loop, struct qmp *qmp, struct err *err)
{
	const int64_t end = clock_in(END_MS);
	bool finishes = true;

	while (finishes) {
		CLEAN(json) struct json *answer = NULL;
		const char *status;

		if (!qmp_call(qmp, "query-status", NULL, end, &answer, err))
			return false;
		status = json_get_str(answer, "status");
		finishes = status && !strcmp(status, "finish-migrate");
		if (finishes && clock_ms() > end)
			return err_set(err, ERR_TIME, "QEMU does not come to the end of it");
		if (finishes && !loop_pause(loop, LOOK_MS, err))
			return false;
	}
	return true;
}

static bool is_over(const void *arg)
{
	const struct stream *s = arg;

	return *s->progress != MIGRATION_NONE || qmp_closed(s->qmp);
}

/* No part of what failed goes on. */
static void call_off(const struct stream *s, struct qmp *qmp)
{
	struct err err;

	if (s->qmp && qmp_call(qmp, "migrate_cancel", NULL, clock_in(END_MS), NULL, &err))
		(void)!loop_until(s->loop, is_over, s, clock_in(END_MS), &err);
}

bool whole_save(struct loop *loop, struct qmp *qmp, enum migration *progress, int file, int64_t max,
	int64_t deadline, struct err *err)
{
	struct stream s = { .loop = loop, .file = file, .size = max };
	bool ok = unlimit(qmp, deadline, err) && move(&s, qmp, progress, deadline, err);
	struct err ignored;

	if (!ok)
		call_off(&s, qmp);
	return may_go_on(loop, qmp, ok ? err : &ignored) && ok;
}
