/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A switchboard between two callers and a guest, all of whom say anything.
 *
 * How it works. The input is a script: words of the callers (frames with the right tag, raw bytes,
 * greetings, hanging up) and of the guest, who also starts anew. After each step the switchboard
 * takes what there is, and what it says is checked: every frame decodes, comes from the right side
 * and has the right tag; no stream gets more than its credit, to a caller or to the guest; an end
 * comes behind all that it counts.
 */
#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/loop.h"
#include "frame.h"
#include "keeper/switchboard.h"
#include "messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CALLERS 2
#define IDS	64 /* that are watched */

/* What one side was told, and what it granted. */
struct party {
	int fd;
	struct inbox in;
	uint8_t nonce[16];
	uint32_t tag;
	bool open;
	uint64_t granted[IDS][3], bytes[IDS][3];
	bool started[IDS], ended[IDS];
};

static struct loop loop;
static struct switchboard *board;
static struct session *session;
static struct party guest, callers[CALLERS];
static struct msg_hello asked; /* by our session, of the guest */

static void grant_all(struct party *s)
{
	for (int i = 0; i < IDS; i++)
		for (int part = 0; part < 3; part++)
			s->granted[i][part] = STREAM_WINDOW;
	memset(s->bytes, 0, sizeof(s->bytes));
	memset(s->started, 0, sizeof(s->started));
	memset(s->ended, 0, sizeof(s->ended));
}

static void say(struct party *s, const void *data, size_t len)
{
	if (s->fd >= 0)
		(void)!send(s->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void say_frame(
	struct party *s, unsigned type, uint32_t stream, unsigned flags, struct bytes body)
{
	static uint8_t frame[FRAME_MAX];

	say(s, frame,
		frame_put(frame, &(struct frame){ .type = (uint16_t)type,
					 .flags = (uint16_t)flags,
					 .stream = stream,
					 .tag = type == MSG_HELLO ? 0 : s->tag,
					 .body = body }));
}

static void say_hello(struct party *s, const struct msg_hello *m)
{
	uint8_t body[HELLO_BODY];
	struct writer w = writer_of(body, sizeof(body));

	put_hello(&w, m);
	say_frame(s, MSG_HELLO, 0, 0, bytes_of(body, sizeof(body)));
}

static void check_data(struct party *s, const struct frame *f)
{
	uint32_t id = stream_id(f->stream);
	unsigned part = stream_part(f->stream);

	assert(part < 3 && f->body.len <= BULK_CHUNK);
	if (id >= IDS)
		return;
	assert(f->body.len <= s->granted[id][part]);
	s->granted[id][part] -= f->body.len;
	s->bytes[id][part] += f->body.len;
}

/* Of the switchboard's session, to the guest. */
static void hear_as_guest(const struct frame *f)
{
	static struct msg_exec exec;
	struct msg_put put;
	struct msg_get get;

	assert(message_legal(f->type, FROM_HOST, ANY_PHASE));
	if (f->type == MSG_HELLO) {
		assert(get_hello(f->body, &asked));
		guest.tag = session_tag(asked.nonce);
		grant_all(&guest);
		return;
	}
	assert(f->tag == guest.tag);
	assert(f->type != MSG_PREPARE && f->type != MSG_HEAL && f->type != MSG_POWEROFF &&
		f->type != MSG_REBOOT && f->type != MSG_QUERY);
	if (f->type == MSG_EXEC)
		assert(get_exec(f->body, &exec));
	else if (f->type == MSG_PUT)
		assert(get_put(f->body, &put));
	else if (f->type == MSG_GET)
		assert(get_get(f->body, &get));
	else if (f->type == MSG_DATA)
		check_data(&guest, f);
}

static void check_end(struct party *s, const struct frame *f)
{
	uint32_t id = stream_id(f->stream);
	struct msg_exit exit;
	struct msg_done done;

	if (f->type == MSG_EXIT) {
		assert(get_exit(f->body, &exit));
		assert(id >= IDS || (s->started[id] && exit.stdout_bytes == s->bytes[id][1] &&
					    exit.stderr_bytes == s->bytes[id][2]));
	} else {
		assert(get_done(f->body, &done));
	}
	if (id < IDS)
		s->ended[id] = true;
}

static void hear_as_caller(struct party *s, const struct frame *f)
{
	uint32_t id = stream_id(f->stream);
	struct msg_started started;
	struct msg_credit credit;
	struct msg_failed failed;
	struct msg_hello hello;
	struct msg_pong pong;

	assert(message_legal(f->type, FROM_GUEST, ANY_PHASE));
	if (f->type == MSG_HELLO) {
		assert(get_hello(f->body, &hello) && !hello.flags);
		s->open = !memcmp(hello.nonce, s->nonce, sizeof(s->nonce));
		return;
	}
	if (!s->open || f->tag != s->tag)
		return;
	assert(id >= IDS || !s->ended[id]);
	if (f->type == MSG_DATA) {
		assert(id >= IDS || s->started[id]);
		check_data(s, f);
	} else if (f->type == MSG_STARTED) {
		assert(get_started(f->body, &started));
		if (id < IDS)
			s->started[id] = true;
	} else if (f->type == MSG_CREDIT) {
		assert(get_credit(f->body, &credit));
	} else if (f->type == MSG_FAILED) {
		assert(get_failed(f->body, &failed));
	} else if (f->type == MSG_PONG) {
		assert(get_pong(f->body, &pong));
	} else {
		assert(f->type == MSG_EXIT || f->type == MSG_DONE);
		check_end(s, f);
	}
}

static bool drain(struct party *s)
{
	struct frame f;
	size_t room;
	uint8_t *at;
	ssize_t n;

	if (s->fd < 0)
		return false;
	at = inbox_space(&s->in, &room);
	n = recv(s->fd, at, room, MSG_DONTWAIT);
	if (n <= 0)
		return false;
	inbox_filled(&s->in, (size_t)n);
	while (inbox_next(&s->in, &f)) {
		if (s == &guest)
			hear_as_guest(&f);
		else
			hear_as_caller(s, &f);
	}
	return true;
}

/* Until nobody has anything to say. */
static void turn(void)
{
	bool more = true;

	for (int n = 0; more && n < 64; n++) {
		for (int i = 0; i < LOOP_SOURCES; i++) {
			struct source *s = loop.sources[i];
			short wants = s && s->wants && s->fd >= 0 ? s->wants(s->self) : 0;

			/* Greetings that are repeated in time are left to time. */
			if (s && (wants || (s->due && s->due(s->self) <= clock_ms())))
				s->ready(s->self, wants & (POLLIN | POLLOUT));
		}
		more = drain(&guest);
		for (int i = 0; i < CALLERS; i++)
			more |= drain(&callers[i]);
	}
}

static void join(struct party *s)
{
	struct err err;
	int ours;

	fd_close(&s->fd);
	if (!fd_pair(&ours, &s->fd, &err))
		abort();
	inbox_clear(&s->in);
	s->open = false;
	switchboard_add(board, ours);
}

static void greet(struct party *s, unsigned flags)
{
	struct msg_hello m = { .generation = PROTOCOL_GENERATION, .epoch = { 1 } };

	m.nonce[0] = s->nonce[0] = (uint8_t)(s->nonce[0] % 250 + 1);
	m.flags = flags & HELLO_FLAGS;
	s->tag = session_tag(m.nonce);
	s->open = false;
	grant_all(s);
	say_hello(s, &m);
}

static void answer(bool is_asked)
{
	struct msg_hello m = asked;

	m.flags = 0;
	if (!is_asked)
		memset(m.nonce, 0, sizeof(m.nonce));
	say_hello(&guest, &m);
}

static void new_guest(void)
{
	struct err err;
	int ours;

	switchboard_serve(board, NULL);
	session_free(session);
	fd_close(&guest.fd);
	if (!fd_pair(&ours, &guest.fd, &err))
		abort();
	inbox_clear(&guest.in);
	session = session_new(&loop, ours);
	switchboard_serve(board, session);
	turn();
	answer(true);
	turn();
}

/* Well-formed openers: what, with or without input. */
static void begin(struct party *s, unsigned id, unsigned what)
{
	static struct msg_exec exec = { .argc = 1, .argv = { { (const uint8_t *)"x", 1 } } };
	uint8_t body[128];
	struct writer w = writer_of(body, sizeof(body));
	unsigned type = what % 3 == 0 ? MSG_EXEC : what % 3 == 1 ? MSG_PUT : MSG_GET;

	exec.flags = what & 8 ? EXEC_STDIN : 0;
	if (type == MSG_EXEC)
		put_exec(&w, &exec);
	else if (type == MSG_PUT)
		put_put(&w, &(struct msg_put){ 0, bytes_str("/x") });
	else
		put_get(&w, &(struct msg_get){ 0, bytes_str("/x") });
	say_frame(s, type, stream_of(id, PART_CONTROL), 0, bytes_of(body, (size_t)(w.at - body)));
}

/* The guest ends a command with the totals that are right. */
static void exit_guest(struct party *said, unsigned id)
{
	struct msg_exit m = { .stdout_bytes = said->bytes[id][1],
		.stderr_bytes = said->bytes[id][2] };
	uint8_t body[64];
	struct writer w = writer_of(body, sizeof(body));

	put_exit(&w, &m);
	say_frame(said, MSG_EXIT, stream_of(id, PART_CONTROL), 0,
		bytes_of(body, (size_t)(w.at - body)));
}

/* Data of either side, within the first ids; counted for the guest's EXIT. */
static void say_data(struct party *s, unsigned id, unsigned part, size_t len, bool end)
{
	static const uint8_t zeros[32768];

	if (s == &guest)
		s->bytes[id][part] += len;
	say_frame(s, MSG_DATA, stream_of(id, (enum stream_part)part), end ? FRAME_EOF : 0,
		bytes_of(zeros, len));
}

static void grant(struct party *s, unsigned id, unsigned part, uint32_t bytes)
{
	uint8_t body[4];
	struct writer w = writer_of(body, sizeof(body));

	put_credit(&w, &(struct msg_credit){ bytes });
	s->granted[id][part] += bytes;
	say_frame(s, MSG_CREDIT, stream_of(id, (enum stream_part)part), 0, bytes_of(body, 4));
}

/* A frame of any kind: type, id and part, flags, length, body. */
static void say_any(struct party *s, struct reader *r)
{
	unsigned type = get_u8(r) % 26u, where = get_u8(r), flags = get_u8(r);
	size_t len = get_u8(r), left = (size_t)(r->end - r->at);
	uint32_t id = where >> 2 & 15;
	struct msg_credit m;
	struct bytes body;

	len = len < left ? len : left;
	body = bytes_of(reader_take(r, len), len);
	if (type == MSG_HELLO || type == MSG_DATA || r->bad)
		return;
	if (type == MSG_CREDIT && get_credit(body, &m) && (where & 3) < 3)
		s->granted[id][where & 3] += m.bytes;
	say_frame(s, type, where & 64 ? 0 : stream_of(id, (enum stream_part)(where & 3)),
		flags < 200 ? flags & 1 : flags, body);
}

static void step(struct reader *r)
{
	unsigned what = get_u8(r), where = get_u8(r), id = where & 15, part = where >> 4 & 3;
	struct party *s = what & 16 ? &guest : &callers[what >> 5 & 1];
	uint8_t pid[4] = { 0, 0, 0, 1 };

	switch (what & 15) {
	case 0:
		if (s != &guest)
			greet(s, where & 128 ? where : 0);
		else
			answer(where & 1);
		break;
	case 1:
		if (s != &guest)
			join(s);
		else if ((where & 7) == 7)
			new_guest();
		break;
	case 2:
	case 3:
		if (s != &guest)
			begin(s, id, where >> 4);
		else
			say_frame(s, MSG_STARTED, stream_of(id, PART_CONTROL), 0, bytes_of(pid, 4));
		break;
	case 4:
	case 5:
		say_data(s, id, s == &guest ? 1 + (part & 1) : 0, (size_t)get_u8(r) << (what & 7),
			where & 128);
		break;
	case 6:
		grant(s, id, s == &guest ? 0 : 1 + (part & 1), 1 + ((uint32_t)get_u8(r) << 8));
		break;
	case 7:
		if (s == &guest)
			exit_guest(s, id);
		else
			say_frame(s, MSG_ACK, stream_of(id, PART_CONTROL), 0, bytes_of(NULL, 0));
		break;
	case 8:
		if (where <= (size_t)(r->end - r->at))
			say(s, reader_take(r, where), where);
		break;
	default:
		say_any(s, r);
		break;
	}
	turn();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader r = reader_of(bytes_of(data, size));
	struct err err;

	if (!loop_init(&loop, false, &err))
		abort();
	guest.fd = callers[0].fd = callers[1].fd = -1;
	board = switchboard_new(&loop, -1);
	session = NULL;
	new_guest();
	for (int i = 0; i < CALLERS; i++) {
		join(&callers[i]);
		greet(&callers[i], 0);
	}
	turn();
	assert(callers[0].open && callers[1].open);
	while (r.at < r.end)
		step(&r);
	switchboard_serve(board, NULL);
	session_free(session);
	switchboard_free(board);
	fd_close(&guest.fd);
	for (int i = 0; i < CALLERS; i++)
		fd_close(&callers[i].fd);
	return 0;
}
