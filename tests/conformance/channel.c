/* SPDX-License-Identifier: Apache-2.0 */
/* Frames by the book. */
#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crc32.h"

#define AGENT_FD  3
#define WAIT_MS	  10000 /* for each frame */
#define ENDING_MS 5000	/* for an agent whose channel is closed */

static const uint8_t hello_header[HEADER] = { 0x9b, 0xe3, 0xd5, 0x0a, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
	0, 60, 0, 0, 0, 0, 0xd5, 0xe2, 0xd5, 0x11 };

static _Noreturn void become(char *const *agent, int fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fd == AGENT_FD)
		fcntl(fd, F_SETFD, 0);
	else
		dup2(fd, AGENT_FD);
	execvp(agent[0], agent);
	perror(agent[0]);
	_exit(127);
}

bool channel_start(struct channel *c, char *const *agent, struct err *err)
{
	int ends[2];

	memset(c, 0, sizeof(*c));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "socketpair");
	fflush(stdout);
	c->agent = fork();
	if (c->agent == 0)
		become(agent, ends[1]);
	close(ends[1]);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	c->fd = ends[0];
	return c->agent > 0 || err_errno(err, "fork");
}

/* False when it did not end in time. */
static bool wait_end(pid_t pid, int *ret_status)
{
	struct pollfd end = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
	bool ended = poll(&end, 1, ENDING_MS) == 1;

	close(end.fd);
	return ended && waitpid(pid, ret_status, 0) == pid;
}

/* What the agent left became ours, since we are its subreaper. */
static void kill_children(void)
{
	char path[64], list[4096];
	bool any = true;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	while (any) {
		FILE *file = fopen(path, "r");

		any = file && fgets(list, sizeof(list), file);
		if (file)
			fclose(file);
		for (char *at = list; any && *at;) {
			pid_t pid = (pid_t)strtol(at, &at, 10);

			kill(pid, SIGKILL);
			(void)waitpid(pid, NULL, 0);
			at += strspn(at, " \n");
		}
	}
}

bool channel_stop(struct channel *c, struct err *err)
{
	int status = 0;
	bool fine = true;

	close(c->fd);
	if (c->agent > 0 && !wait_end(c->agent, &status)) {
		kill(c->agent, SIGKILL);
		(void)waitpid(c->agent, &status, 0);
		status = 0;
	}
	kill_children();
	channel_forget(c, true);
	if (WIFSIGNALED(status))
		fine = err_set(err, ERR_PEER, "the agent was ended by signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		fine = err_set(err, ERR_PEER, "the agent ended with %d", WEXITSTATUS(status));
	return fine;
}

static bool wait_for(struct channel *c, short events, struct err *err)
{
	struct pollfd fd = { .fd = c->fd, .events = events };
	int n = poll(&fd, 1, WAIT_MS);

	if (n < 0 && errno != EINTR)
		return err_errno(err, "poll");
	return n != 0 || err_set(err, ERR_TIME, "nothing more came within %d s", WAIT_MS / 1000);
}

bool channel_write(struct channel *c, const void *data, size_t len, struct err *err)
{
	while (len) {
		ssize_t n = send(c->fd, data, len, MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			return err_errno(err, "the agent is gone");
		if (n < 0 && !wait_for(c, POLLOUT, err))
			return false;
		data = (const uint8_t *)data + (n < 0 ? 0 : n);
		len -= (size_t)(n < 0 ? 0 : n);
	}
	return true;
}

void channel_header(const struct channel *c, uint8_t out[HEADER], uint16_t type, uint16_t flags,
	uint32_t stream, size_t len)
{
	struct writer w = writer_of(out, HEADER);

	put_raw(&w, hello_header, 4);
	put_u16(&w, type);
	put_u16(&w, flags);
	put_u32(&w, stream);
	put_u32(&w, (uint32_t)len);
	if (type == HELLO)
		put_u32(&w, 0);
	else
		put_raw(&w, c->nonce, 4);
	put_u32(&w, crc32_of(out, HEADER - 4));
}

void channel_sent(struct channel *c, uint16_t type, uint32_t stream, struct bytes body)
{
	struct reader r = reader_of(body);

	if (type == CREDIT)
		channel_stream(c, stream)->may_come += get_u32(&r);
	if (type == DATA) {
		struct stream *s = channel_stream(c, stream);

		s->may_go -= body.len < s->may_go ? body.len : s->may_go;
	}
	if (type == QUERY) {
		channel_stream(c, (stream & ~3u) + 1)->may_come = get_u32(&r);
		channel_stream(c, (stream & ~3u) + 2)->may_come = get_u32(&r);
	}
}

struct stream *channel_stream(struct channel *c, uint32_t number)
{
	struct stream *s;

	for (size_t i = 0; i < c->streams; i++)
		if (c->stream[i]->number == number)
			return c->stream[i];
	s = c->streams < STREAMS ? calloc(1, sizeof(*s)) : NULL;
	if (!s) {
		fprintf(stderr, "more than %d streams in a test\n", STREAMS);
		exit(2);
	}
	s->number = number;
	s->may_come = s->may_go = WINDOW;
	c->stream[c->streams++] = s;
	return s;
}

void channel_forget(struct channel *c, bool streams)
{
	while (c->waiting)
		channel_drop(c);
	for (size_t i = 0; i < c->streams; i++) {
		c->stream[i]->len = 0;
		c->stream[i]->may_come = 0; /* until QUERY says so */
		if (streams)
			free(c->stream[i]);
	}
	if (streams)
		c->streams = 0;
}

static bool on_data(struct channel *c, const struct waiting *f, struct err *err)
{
	struct stream *s = channel_stream(c, f->stream);

	if (f->body.len > s->may_come)
		return err_set(err, ERR_PEER,
			"%zu bytes of DATA on %u/%u, but only %llu were granted", f->body.len,
			f->stream >> 2, f->stream & 3, (unsigned long long)s->may_come);
	if (s->ended)
		return err_set(err, ERR_PEER, "DATA on %u/%u behind its end", f->stream >> 2,
			f->stream & 3);
	if (f->body.len > sizeof(s->data) - s->len)
		return err_set(err, ERR_INPUT, "more bytes wait than the script looks at");
	memcpy(s->data + s->len, f->body.data, f->body.len);
	s->len += f->body.len;
	s->may_come -= f->body.len;
	s->ended = f->flags & 1;
	return true;
}

static bool on_credit(struct channel *c, const struct waiting *f, struct err *err)
{
	struct stream *s = channel_stream(c, f->stream);
	struct reader r = reader_of(f->body);
	uint32_t bytes = get_u32(&r);

	if (!reader_done(&r) || !bytes)
		return err_set(err, ERR_PEER, "a malformed CREDIT");
	s->may_go += bytes;
	return s->may_go <= WINDOW || err_set(err, ERR_PEER, "CREDIT beyond the window on %u/%u",
					      f->stream >> 2, f->stream & 3);
}

static bool file_frame(struct channel *c, const struct waiting *f, struct err *err)
{
	struct waiting *mine = &c->wait[c->waiting];
	struct reader r = reader_of(f->body);
	uint8_t *copy;

	if (c->open && f->type == DATA)
		return on_data(c, f, err);
	if (c->open && f->type == CREDIT)
		return on_credit(c, f, err);
	if (c->waiting == WAITING_MAX)
		return err_set(err, ERR_PEER, "a flood of frames that nobody asked for");
	if (c->open && f->type == STATUS) {
		(void)get_u16(&r);
		(void)get_u64(&r);
		channel_stream(c, f->stream & ~3u)->may_go = get_u32(&r);
	}
	copy = malloc(f->body.len + 1);
	if (!copy)
		return err_errno(err, "malloc");
	memcpy(copy, f->body.data, f->body.len);
	*mine = *f;
	mine->body.data = copy;
	c->waiting++;
	return true;
}

static void skip(struct channel *c, size_t n)
{
	memmove(c->buf, c->buf + n, c->len - n);
	c->len -= n;
}

/* Takes a whole frame; *ret_size is what it takes of the buffer. */
static bool take(struct channel *c, struct waiting *f, uint32_t *ret_tag, size_t *ret_size)
{
	while (c->len >= HEADER) {
		struct reader r = { c->buf, c->buf + HEADER, false };
		bool sound = get_u32(&r) == 0x9be3d50a;
		const uint8_t *hello;
		size_t end;

		f->type = get_u16(&r);
		f->flags = get_u16(&r);
		f->stream = get_u32(&r);
		end = HEADER + (size_t)get_u32(&r) + 1;
		*ret_tag = get_u32(&r);
		sound = sound && end <= HEADER + BODY_MAX + 1 &&
			get_u32(&r) == crc32_of(c->buf, HEADER - 4) &&
			(c->len < end || c->buf[end - 1] == END);
		if (!sound) {
			skip(c, 1);
			c->skipped++;
			continue;
		}
		hello = memmem(c->buf + 1, (c->len < end ? c->len : end) - 1, hello_header, HEADER);
		if (hello) {
			c->skipped += (size_t)(hello - c->buf);
			skip(c, (size_t)(hello - c->buf));
			continue;
		}
		f->body = bytes_of(c->buf + HEADER, end - HEADER - 1);
		*ret_size = end;
		return c->len >= end;
	}
	return false;
}

static bool fill(struct channel *c, struct err *err)
{
	ssize_t n = read(c->fd, c->buf + c->len, sizeof(c->buf) - c->len);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		return err_set(err, ERR_PEER, "the agent closed the channel");
	if (n < 0)
		return wait_for(c, POLLIN, err);
	c->len += (size_t)n;
	return true;
}

static bool hello_sound(const struct waiting *f, uint32_t tag)
{
	struct reader r;

	if (f->flags || f->stream || tag || f->body.len != 60)
		return false;
	r = reader_of(bytes_of(f->body.data + 56, 4));
	return get_u32(&r) == crc32_of(f->body.data, 56);
}

static bool check_frame(struct channel *c, const struct waiting *f, uint32_t tag, struct err *err)
{
	struct reader r = { c->nonce, c->nonce + 4, false };

	if (f->type == HELLO && !hello_sound(f, tag))
		return err_set(err, ERR_PEER, "a HELLO with a wrong header or CRC");
	if (f->type == HELLO || !c->open)
		return true;
	if (c->skipped)
		return err_set(err, ERR_PEER, "%llu bytes of no frame in a session",
			(unsigned long long)c->skipped);
	if (tag != get_u32(&r))
		return err_set(err, ERR_PEER, "a frame with tag %08x", tag);
	return (f->flags & ~(f->type == DATA ? 1 : 0)) == 0 ||
	       err_set(err, ERR_PEER, "a frame with flags %u", f->flags);
}

bool channel_read(struct channel *c, struct err *err)
{
	struct waiting f;
	uint32_t tag;
	size_t size;

	while (!take(c, &f, &tag, &size))
		if (!fill(c, err))
			return false;
	if (!check_frame(c, &f, tag, err) || !file_frame(c, &f, err))
		return false;
	c->skipped = 0;
	skip(c, size);
	return true;
}

struct waiting *channel_next(struct channel *c, struct err *err)
{
	while (!c->waiting)
		if (!channel_read(c, err))
			return NULL;
	return &c->wait[0];
}

void channel_drop(struct channel *c)
{
	free((void *)c->wait[0].body.data);
	c->waiting--;
	memmove(c->wait, c->wait + 1, c->waiting * sizeof(*c->wait));
}
