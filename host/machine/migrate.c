/* SPDX-License-Identifier: Apache-2.0 */
/* Saving and loading through a socketpair. */
#include "migrate.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"

#define STATE_MAX (64 << 20) /* bytes; what we have seen has some hundred kilobytes */
#define FD_NAME	  "state"    /* of QEMU's end, to QEMU */

/* Our end of the socket. */
struct stream {
	struct source source;
	struct loop *loop;
	const enum migration *progress;
	const struct qmp *qmp;
	int fd;
	struct buf *in;	       /* what is saved goes here */
	const struct buf *out; /* what is loaded comes from here */
	size_t sent;
	bool ended;  /* nothing more comes, or goes */
	bool broken; /* it did not come or go whole */
};

void migration_event(enum migration *progress, const struct json *data)
{
	const char *status = json_get_str(data, "status");

	if (status && !strcmp(status, "completed"))
		*progress = MIGRATION_DONE;
	else if (status && !strcmp(status, "failed"))
		*progress = MIGRATION_FAILED;
}

static short wants(const void *self)
{
	const struct stream *s = self;

	if (s->ended)
		return 0;
	return s->in ? POLLIN : POLLOUT;
}

static void receive(struct stream *s)
{
	char chunk[65536];
	ssize_t n = recv(s->fd, chunk, sizeof(chunk), 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && s->in->len + (size_t)n <= STATE_MAX) {
		buf_add(s->in, chunk, (size_t)n);
		return;
	}
	s->ended = true;
	s->broken = n != 0;
}

static void transmit(struct stream *s)
{
	ssize_t n = send(s->fd, s->out->data + s->sent, s->out->len - s->sent, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		s->ended = s->broken = true;
	s->sent += n > 0 ? (size_t)n : 0;
	s->ended = s->ended || s->sent == s->out->len;
	/* QEMU learns from the end that nothing is missing. */
	if (s->ended)
		(void)shutdown(s->fd, SHUT_WR);
}

static void ready(void *self, short events)
{
	struct stream *s = self;

	(void)events;
	if (s->in)
		receive(s);
	else
		transmit(s);
}

static bool over(const void *arg)
{
	const struct stream *s = arg;

	return *s->progress == MIGRATION_FAILED || s->broken || qmp_closed(s->qmp) ||
	       (*s->progress == MIGRATION_DONE && s->ended);
}

static bool enable(struct qmp *qmp, int64_t deadline, struct err *err)
{
	static const char *const names[] = { "events", "x-ignore-shared" };
	struct json *arguments = json_object();
	struct json *list = json_set(arguments, "capabilities", json_array());

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct json *capability = json_add(list, json_object());

		json_set_str(capability, "capability", names[i]);
		json_set_bool(capability, "state", true);
	}
	return qmp_call(qmp, "migrate-set-capabilities", arguments, deadline, NULL, err);
}

static bool move(struct stream *s, struct qmp *qmp, const char *command, enum migration *progress,
	int64_t deadline, struct err *err)
{
	CLEAN(fd) int ours = -1, theirs = -1;
	struct json *arguments = json_object();
	bool ok;

	json_set_str(arguments, "uri", "fd:" FD_NAME);
	*progress = MIGRATION_NONE;
	if (!enable(qmp, deadline, err) || !fd_pair(&ours, &theirs, err) ||
		!qmp_give_fd(qmp, FD_NAME, theirs, deadline, err)) {
		json_free(arguments);
		return false;
	}
	fd_close(&theirs);
	s->fd = ours;
	s->progress = progress;
	s->qmp = qmp;
	s->source = (struct source){ .fd = ours, .wants = wants, .ready = ready, .self = s };
	loop_add(s->loop, &s->source);
	ok = qmp_call(qmp, command, arguments, deadline, NULL, err) &&
	     loop_until(s->loop, over, s, deadline, err);
	loop_remove(s->loop, &s->source);
	return ok;
}

bool state_save(struct loop *loop, struct qmp *qmp, enum migration *progress, struct buf *ret_state,
	int64_t deadline, struct err *err)
{
	struct stream s = { .loop = loop, .in = ret_state };

	if (!move(&s, qmp, "migrate", progress, deadline, err))
		return err_in(err, "saving the state of the machine");
	return (*progress == MIGRATION_DONE && !s.broken) ||
	       err_set(err, ERR_SYSTEM,
		       "QEMU failed to save the state of the machine: see its own words");
}

bool state_load(struct loop *loop, struct qmp *qmp, enum migration *progress,
	const struct buf *state, int64_t deadline, struct err *err)
{
	struct stream s = { .loop = loop, .out = state };

	if (!move(&s, qmp, "migrate-incoming", progress, deadline, err))
		return err_in(err, "loading the state of the machine");
	return (*progress == MIGRATION_DONE && !s.broken) ||
	       err_set(err, ERR_SYSTEM, "QEMU failed to load the state of the machine");
}
