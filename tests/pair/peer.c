/* SPDX-License-Identifier: Apache-2.0 */
/* Raw frames to and from a real agent. */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "start.h"

void peer_start(struct peer *p)
{
	memset(p, 0, sizeof(*p));
	p->fd = agent_start(&p->pid);
}

void peer_open(struct peer *p)
{
	peer_start(p);
	peer_hello(p);
}

void peer_stop(struct peer *p)
{
	int status;

	close(p->fd);
	CHECK(waitpid(p->pid, &status, 0) == p->pid);
	CHECK_INT(status, 0);
}

static void wait_for(struct peer *p, short events)
{
	struct pollfd fd = { .fd = p->fd, .events = events };

	CHECK(poll(&fd, 1, -1) == 1);
}

void peer_wait(struct peer *p)
{
	wait_for(p, POLLIN);
}

/* Takes what has come; false: nothing has. */
static bool fill(struct peer *p)
{
	size_t size;
	uint8_t *space = inbox_space(&p->in, &size);
	ssize_t n = size ? read(p->fd, space, size) : -1;

	CHECK(n != 0);
	if (n > 0)
		inbox_filled(&p->in, (size_t)n);
	return n > 0;
}

void peer_write(struct peer *p, const void *data, size_t len)
{
	while (len) {
		ssize_t n = write(p->fd, data, len);

		if (n < 0) {
			CHECK(errno == EAGAIN);
			wait_for(p, POLLOUT);
			continue;
		}
		data = (const char *)data + n;
		len -= (size_t)n;
	}
}

void peer_send_flags(
	struct peer *p, unsigned type, uint32_t stream, unsigned flags, struct bytes body)
{
	uint8_t header[FRAME_HEADER];
	const struct frame f = {
		.type = (uint16_t)type,
		.flags = (uint16_t)flags,
		.stream = stream,
		.tag = type == MSG_HELLO ? 0 : p->tag,
		.body = body,
	};

	frame_put_header(header, &f);
	peer_write(p, header, sizeof(header));
	peer_write(p, body.data, body.len);
	peer_write(p, (const uint8_t[]){ FRAME_END }, 1);
}

void peer_send(struct peer *p, unsigned type, uint32_t stream, struct bytes body)
{
	peer_send_flags(p, type, stream, 0, body);
}

struct frame peer_next(struct peer *p)
{
	struct frame f;

	while (!inbox_next(&p->in, &f))
		if (!fill(p))
			wait_for(p, POLLIN);
	return f;
}

static void greet(struct peer *p)
{
	struct msg_hello m = { .generation = PROTOCOL_GENERATION };
	uint8_t body[HELLO_BODY];
	struct writer w = writer_of(body, sizeof(body));

	CHECK(getrandom(p->nonce, sizeof(p->nonce), 0) == sizeof(p->nonce));
	memcpy(m.nonce, p->nonce, sizeof(m.nonce));
	memcpy(m.epoch, p->epoch, sizeof(m.epoch));
	p->tag = session_tag(p->nonce);
	put_hello(&w, &m);
	peer_send(p, MSG_HELLO, 0, bytes_of(body, sizeof(body)));
	for (;;) {
		struct frame f = peer_next(p);

		if (f.type != MSG_HELLO || !get_hello(f.body, &m) ||
			memcmp(m.nonce, p->nonce, sizeof(m.nonce)) != 0)
			continue;
		CHECK_INT(m.generation, PROTOCOL_GENERATION);
		CHECK_MEM(m.epoch, p->epoch, sizeof(m.epoch));
		memcpy(p->boot_id, m.boot_id, sizeof(m.boot_id));
		p->flags = m.flags;
		return;
	}
}

void peer_hello(struct peer *p)
{
	CHECK(getrandom(p->epoch, sizeof(p->epoch), 0) == sizeof(p->epoch));
	greet(p);
	CHECK_INT(p->flags, 0);
}

void peer_attach(struct peer *p)
{
	greet(p);
}

struct frame peer_expect(struct peer *p, unsigned type, uint32_t stream)
{
	struct frame f = peer_next(p);

	CHECK_STR(message_name(f.type), message_name(type));
	CHECK_INT(f.stream, stream);
	CHECK_INT(f.tag, p->tag);
	return f;
}

void peer_expect_quiet(struct peer *p)
{
	struct msg_pong m;

	PEER_SEND(p, PING, ping, 0, .token = 0x123456789abcdefull);
	CHECK(get_pong(peer_expect(p, MSG_PONG, 0).body, &m));
	CHECK_INT(m.token, 0x123456789abcdefll);
}

void peer_expect_greeting(struct peer *p)
{
	static const uint8_t none[16];
	struct msg_hello m;

	for (;;) {
		struct frame f = peer_next(p);

		if (f.type != MSG_HELLO)
			continue;
		CHECK(get_hello(f.body, &m));
		CHECK_MEM(m.nonce, none, sizeof(none));
		return;
	}
}

static uint16_t list(struct bytes *out, const char *const *strings)
{
	uint16_t n = 0;

	while (strings && strings[n]) {
		out[n] = bytes_str(strings[n]);
		n++;
	}
	return n;
}

void peer_request(struct peer *p, uint32_t id, const struct msg_exec *wanted,
	const char *const *argv, const char *const *env)
{
	static uint8_t body[PAYLOAD_MAX];
	static struct msg_exec m;
	struct writer w = writer_of(body, sizeof(body));

	m = *wanted;
	m.argc = list(m.argv, argv);
	m.envc = list(m.env, env);
	put_exec(&w, &m);
	CHECK(!w.bad);
	peer_send(p, MSG_EXEC, stream_of(id, PART_CONTROL), bytes_of(body, (size_t)(w.at - body)));
}

void peer_exec(struct peer *p, uint32_t id, unsigned flags, uint32_t deadline_ms, uint32_t grace_ms,
	const char *dir, const char *const *argv, const char *const *env)
{
	static struct msg_exec m;

	m = (struct msg_exec){
		.flags = (uint16_t)flags,
		.deadline_ms = deadline_ms,
		.grace_ms = grace_ms,
		.dir = bytes_str(dir ? dir : ""),
	};
	peer_request(p, id, &m, argv, env);
}

static const char *const plain_env[] = { "PATH=/usr/bin:/bin", NULL };

void peer_shell(struct peer *p, uint32_t id, unsigned flags, const char *script)
{
	const char *const argv[] = { "sh", "-c", script, NULL };

	peer_exec(p, id, flags, 0, 100, NULL, argv, plain_env);
	peer_expect_started(p, id);
}

void peer_collect(struct peer *p, uint32_t id, struct outcome *o)
{
	memset(o, 0, sizeof(*o));
	for (;;) {
		struct frame f = peer_next(p);
		size_t part = stream_part(f.stream) - PART_STDOUT;

		CHECK_INT(f.tag, p->tag);
		CHECK_INT(stream_id(f.stream), id);
		if (f.type == MSG_EXIT) {
			CHECK(get_exit(f.body, &o->exit));
			break;
		}
		CHECK_STR(message_name(f.type), "DATA");
		CHECK(part < 2);
		CHECK(o->len[part] + f.body.len < sizeof(o->out[part]));
		memcpy(o->out[part] + o->len[part], f.body.data, f.body.len);
		o->len[part] += f.body.len;
		if (f.body.len)
			PEER_SEND(p, CREDIT, credit, f.stream, .bytes = (uint32_t)f.body.len);
	}
	CHECK_INT(o->exit.stdout_bytes, (long long)o->len[0]);
	CHECK_INT(o->exit.stderr_bytes, (long long)o->len[1]);
	peer_tell(p, MSG_ACK, id);
}

void peer_check_shell(struct peer *p, uint32_t id, const char *script, int code, const char *out)
{
	static struct outcome o;

	peer_shell(p, id, 0, script);
	peer_collect(p, id, &o);
	CHECK_STR(o.out[0], out);
	CHECK_INT(o.exit.flags, 0);
	CHECK_INT(o.exit.value, code);
}

void peer_expect_failed(struct peer *p, uint32_t id, enum fail_kind kind)
{
	struct msg_failed m;

	CHECK(get_failed(peer_expect(p, MSG_FAILED, stream_of(id, PART_CONTROL)).body, &m));
	CHECK_INT(m.kind, kind);
	CHECK(m.text.len > 0);
}

void peer_expect_started(struct peer *p, uint32_t id)
{
	struct msg_started m;

	CHECK(get_started(peer_expect(p, MSG_STARTED, stream_of(id, PART_CONTROL)).body, &m));
	CHECK(m.pid > 1);
}

struct msg_status peer_query(struct peer *p, uint32_t id)
{
	struct msg_status m;

	PEER_SEND(p, QUERY, query, stream_of(id, PART_CONTROL), .stdout_credit = STREAM_WINDOW,
		.stderr_credit = STREAM_WINDOW);
	CHECK(get_status(peer_expect(p, MSG_STATUS, stream_of(id, PART_CONTROL)).body, &m));
	return m;
}

void peer_feed(struct peer *p, uint32_t id, const void *data, size_t len, unsigned flags)
{
	peer_send_flags(p, MSG_DATA, stream_of(id, PART_STDIN), flags, bytes_of(data, len));
}

void peer_tell(struct peer *p, unsigned type, uint32_t id)
{
	peer_send(p, type, stream_of(id, PART_CONTROL), bytes_of(NULL, 0));
}
