/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's control socket: lines of JSON. */
#include "qmp.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/xalloc.h"

#define LINE_MAX_BYTES (1 << 20) /* of one answer; the longest we ask for has some kilobytes */

struct qmp {
	struct loop *loop;
	struct source source;
	int fd;
	bool greeted;
	const char *broken; /* NULL while it works */

	struct buf in, out;
	int pass; /* descriptor that goes with the next bytes, borrowed; -1: none */
	qmp_event *event;
	void *self;

	int64_t asked;	    /* id of the last command */
	struct json *reply; /* to that, owned */
};

static void break_off(struct qmp *q, const char *why)
{
	q->broken = why;
	fd_close(&q->fd);
	q->source.fd = -1;
}

static void take_line(struct qmp *q, const char *line, size_t len)
{
	struct err err;
	CLEAN(json) struct json *j = json_parse(line, len, &err);
	const char *event = json_get_str(j, "event");

	if (!j) {
		break_off(q, "QEMU's control socket sent something that is not JSON");
		return;
	}
	q->greeted = true;
	if (event)
		q->event(q->self, event, json_get(j, "data"));
	else if (json_get_int(j, "id", -1) == q->asked && !q->reply)
		q->reply = json_take(&j);
}

static void take_lines(struct qmp *q)
{
	char *end;

	while (!q->broken && q->in.len && (end = memchr(q->in.data, '\n', q->in.len))) {
		size_t len = (size_t)(end - q->in.data) + 1;

		take_line(q, q->in.data, len);
		memmove(q->in.data, q->in.data + len, q->in.len - len);
		q->in.len -= len;
	}
	if (q->in.len > LINE_MAX_BYTES)
		break_off(q, "QEMU's control socket sent a line without end");
}

void qmp_drain(struct qmp *q)
{
	char chunk[16384];
	ssize_t n = 1;

	while (q->fd >= 0 && n > 0) {
		n = recv(q->fd, chunk, sizeof(chunk), 0);
		if (n > 0) {
			buf_add(&q->in, chunk, (size_t)n);
			take_lines(q);
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			break_off(q, "QEMU closed its control socket");
		}
	}
}

static void flush(struct qmp *q)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec bytes = { q->out.data, q->out.len };
	struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1 };
	struct cmsghdr *head;
	ssize_t n;

	if (q->pass >= 0) {
		message.msg_control = control.space;
		message.msg_controllen = sizeof(control.space);
		head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(head), &q->pass, sizeof(int));
	}
	n = sendmsg(q->fd, &message, MSG_NOSIGNAL);
	if (n <= 0)
		return;
	q->pass = -1;
	memmove(q->out.data, q->out.data + n, q->out.len - (size_t)n);
	q->out.len -= (size_t)n;
}

static short wants(const void *self)
{
	const struct qmp *q = self;

	return q->broken ? 0 : (short)(POLLIN | (q->out.len ? POLLOUT : 0));
}

static void ready(void *self, short events)
{
	struct qmp *q = self;

	if (events & POLLOUT)
		flush(q);
	if (events & ~POLLOUT)
		qmp_drain(q);
}

/* Takes arguments. */
static void queue(struct qmp *q, const char *command, struct json *arguments)
{
	CLEAN(json) struct json *j = json_object();
	CLEAN(str) char *line = NULL;

	json_set_str(j, "execute", command);
	if (arguments)
		json_set(j, "arguments", arguments);
	json_set_int(j, "id", ++q->asked);
	line = json_line(j);
	buf_printf(&q->out, "%s\n", line);
}

struct qmp *qmp_new(struct loop *loop, int fd, qmp_event *event, void *self)
{
	struct qmp *q = xcalloc(1, sizeof(*q));

	*q = (struct qmp){ .loop = loop, .fd = fd, .pass = -1, .event = event, .self = self };
	q->source = (struct source){ .fd = fd, .wants = wants, .ready = ready, .self = q };
	loop_add(loop, &q->source);
	queue(q, "qmp_capabilities", NULL);
	return q;
}

void qmp_free(struct qmp *q)
{
	if (!q)
		return;
	loop_remove(q->loop, &q->source);
	fd_close(&q->fd);
	buf_release(&q->in);
	buf_release(&q->out);
	json_free(q->reply);
	free(q);
}

bool qmp_greeted(const struct qmp *q)
{
	return q->greeted;
}

bool qmp_closed(const struct qmp *q)
{
	struct pollfd pfd = { .fd = q->fd };

	return q->fd < 0 || (poll(&pfd, 1, 0) > 0 && pfd.revents & POLLHUP);
}

static bool answered(const void *arg)
{
	const struct qmp *q = arg;

	return q->reply || q->broken;
}

bool qmp_call(struct qmp *q, const char *command, struct json *arguments, int64_t deadline,
	struct json **ret_answer, struct err *err)
{
	CLEAN(json) struct json *reply = NULL;
	const struct json *error;
	const char *text;

	json_free(q->reply);
	q->reply = NULL;
	queue(q, command, arguments);
	if (!loop_until(q->loop, answered, q, deadline, err))
		return err_in(err, "QEMU does not answer %s", command);
	if (!q->reply)
		return err_set(err, ERR_PEER, "%s", q->broken);
	reply = json_take(&q->reply);
	error = json_get(reply, "error");
	if (error) {
		text = json_get_str(error, "desc");
		return err_set(err, ERR_SYSTEM, "QEMU refuses %s: %.300s", command,
			text ? text : "no reason given");
	}
	if (ret_answer)
		*ret_answer = json_copy(json_get(reply, "return"));
	return true;
}

static bool sent(const void *arg)
{
	const struct qmp *q = arg;

	return !q->out.len || q->broken;
}

/* Takes arguments. */
static bool call_with_fd(struct qmp *q, const char *command, struct json *arguments, int fd,
	int64_t deadline, struct err *err)
{
	bool ok;

	/* It must go with the bytes of this command, not of one before. */
	if (!loop_until(q->loop, sent, q, deadline, err)) {
		json_free(arguments);
		return false;
	}
	q->pass = fd;
	ok = qmp_call(q, command, arguments, deadline, NULL, err);
	q->pass = -1;
	return ok;
}

bool qmp_give_fd(struct qmp *q, const char *name, int fd, int64_t deadline, struct err *err)
{
	struct json *arguments = json_object();

	json_set_str(arguments, "fdname", name);
	return call_with_fd(q, "getfd", arguments, fd, deadline, err);
}

bool qmp_give_file(struct qmp *q, unsigned set, int fd, int64_t deadline, struct err *err)
{
	struct json *arguments = json_object();

	json_set_int(arguments, "fdset-id", set);
	return call_with_fd(q, "add-fd", arguments, fd, deadline, err);
}
