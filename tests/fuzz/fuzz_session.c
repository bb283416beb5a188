/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session against a guest that says anything.
 *
 * How it works. The input is a script: whether the channel is kept, then words of the guest (frames
 * with the right tag, raw bytes, greetings) and doings of the host's callers, who also end the
 * channel and attach another. After each step the session takes what there is, and what it says is
 * checked: every frame decodes, and no stream gets more than its credit.
 */
#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/loop.h"
#include "frame.h"
#include "link/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define COMMANDS 4
#define IDS	 64 /* whose credit is watched */

static struct loop loop;
static struct session *session;
static int guest;
static struct inbox in;
static struct msg_hello hello; /* the last one that the session sent */
static struct command *commands[COMMANDS];
static bool fed[COMMANDS]; /* by command_input, and not to its end */
static bool keep;
static size_t held[COMMANDS][2];
static uint64_t granted[IDS]; /* for input */
static uint8_t input[STREAM_WINDOW + 5000];

static size_t take_output(void *self, enum stream_part part, const uint8_t *data, size_t len)
{
	size_t *mine = self;

	(void)data;
	assert(part == PART_STDOUT || part == PART_STDERR);
	mine[part - PART_STDOUT] += len - len / 2;
	return len / 2;
}

static void check_data(const struct frame *f)
{
	uint32_t id = stream_id(f->stream);

	assert(stream_part(f->stream) == PART_STDIN && f->body.len <= BULK_CHUNK);
	if (id >= IDS)
		return;
	assert(f->body.len <= granted[id]);
	granted[id] -= f->body.len;
}

static void check_frame(const struct frame *f)
{
	static struct msg_exec exec;
	struct msg_credit credit;
	struct msg_query query;
	struct msg_resize size;
	struct msg_signal number;
	struct msg_put put;
	struct msg_get get;

	assert(message_legal(f->type, FROM_HOST, ANY_PHASE));
	assert(f->type == MSG_HELLO || f->tag == session_tag(hello.nonce));
	if (f->type == MSG_HELLO)
		assert(get_hello(f->body, &hello));
	else if (f->type == MSG_EXEC)
		assert(get_exec(f->body, &exec));
	else if (f->type == MSG_PUT)
		assert(get_put(f->body, &put));
	else if (f->type == MSG_GET)
		assert(get_get(f->body, &get));
	else if (f->type == MSG_SIGNAL)
		assert(get_signal(f->body, &number));
	else if (f->type == MSG_RESIZE)
		assert(get_resize(f->body, &size));
	else if (f->type == MSG_QUERY)
		assert(get_query(f->body, &query));
	else if (f->type == MSG_CREDIT)
		assert(get_credit(f->body, &credit));
	else if (f->type == MSG_DATA)
		check_data(f);
}

static void turn(void)
{
	struct source *s = loop.sources[0];
	struct frame f;

	if (s->wants(s->self))
		s->ready(s->self, POLLIN);
	while (guest >= 0) {
		size_t room;
		uint8_t *space = inbox_space(&in, &room);
		ssize_t n = recv(guest, space, room, MSG_DONTWAIT);

		if (n <= 0)
			return;
		inbox_filled(&in, (size_t)n);
		while (inbox_next(&in, &f))
			check_frame(&f);
		if (s->wants(s->self) & POLLOUT)
			s->ready(s->self, POLLOUT);
	}
}

static void say(const void *data, size_t len)
{
	if (guest >= 0)
		(void)!send(guest, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void say_frame(
	unsigned type, uint32_t stream, unsigned flags, uint32_t tag, struct bytes body)
{
	uint8_t frame[FRAME_OVERHEAD + 512];

	say(frame, frame_put(frame, &(struct frame){ .type = (uint16_t)type,
					    .flags = (uint16_t)flags,
					    .stream = stream,
					    .tag = tag,
					    .body = body }));
}

static void say_hello(bool asked, unsigned flags)
{
	struct msg_hello m = hello;
	uint8_t body[HELLO_BODY];
	struct writer w = writer_of(body, sizeof(body));

	m.flags = flags & HELLO_FLAGS;
	if (!asked)
		memset(m.nonce, 0, sizeof(m.nonce));
	put_hello(&w, &m);
	say_frame(MSG_HELLO, 0, 0, 0, bytes_of(body, sizeof(body)));
}

/* A frame: type, id and part, flags, length, body. */
static void say_any(struct reader *r)
{
	unsigned type = get_u8(r) % 26u, where = get_u8(r), flags = get_u8(r);
	uint32_t id = where >> 2 & 15;
	size_t len = get_u8(r), left = (size_t)(r->end - r->at);
	struct bytes body;
	struct msg_credit m;
	struct msg_status status;

	len = len < left ? len : left;
	body = bytes_of(reader_take(r, len), len);
	if (type == MSG_HELLO || r->bad)
		return;
	if (type == MSG_CREDIT && get_credit(body, &m))
		granted[id] += m.bytes;
	/* More than is meant, for one that is believed only when it was asked for. */
	if (type == MSG_STATUS && get_status(body, &status))
		granted[id] += status.state == STATUS_UNKNOWN ? STREAM_WINDOW : status.stdin_credit;
	say_frame(type, where & 64 ? 0 : stream_of(id, (enum stream_part)(where & 3)),
		flags < 200 ? flags & 1 : flags, session_tag(hello.nonce), body);
}

/* A flood of output, up to and over the credit. */
static void say_much(struct reader *r)
{
	unsigned where = get_u8(r), n = get_u8(r);
	static uint8_t frame[FRAME_OVERHEAD + 32768];
	const size_t size =
		frame_put(frame, &(struct frame){ .type = MSG_DATA,
					 .stream = stream_of(where >> 2 & 15, where & 1 ? 1 : 2),
					 .tag = session_tag(hello.nonce),
					 .body = { NULL, 32768 } });

	for (unsigned i = 0; i < n % 12; i++) {
		say(frame, size);
		turn();
	}
}

static void forget(unsigned i)
{
	command_free(commands[i]);
	commands[i] = NULL;
	fed[i] = false;
	memset(held[i], 0, sizeof(held[i]));
}

static void start_command(unsigned i, bool with_input, bool stream)
{
	static const char *const argv[] = { "x", NULL };
	const struct command_spec spec = {
		.argv = argv,
		.input = with_input ? input : NULL,
		.input_len = sizeof(input),
		.stream_input = stream,
		.pty = stream,
		.output_max = stream ? 70000 : 0,
		.output = take_output,
		.self = held[i],
	};
	struct err err;

	forget(i);
	commands[i] = command_start(session, &spec, &err);
	fed[i] = commands[i] && stream;
}

static void start_get(unsigned i)
{
	const struct transfer_spec spec = {
		.type = MSG_GET, .path = "/x", .output = take_output, .self = held[i]
	};
	struct err err;

	forget(i);
	commands[i] = transfer_start(session, &spec, &err);
}

static void feed(unsigned i, bool end)
{
	if (!fed[i])
		return;
	(void)command_input(commands[i], input, 30000);
	if (end)
		command_input_end(commands[i]);
	fed[i] = !end;
}

static void attach(void)
{
	struct err err;
	int ours;

	if (!keep)
		return;
	fd_close(&guest);
	if (!fd_pair(&ours, &guest, &err))
		abort();
	inbox_clear(&in);
	session_attach(session, ours);
}

static void direct(unsigned i, unsigned what)
{
	if (!commands[i])
		return;
	command_signal(commands[i], (int)(what >> 2 & 63) + 1);
	command_resize(commands[i], (uint16_t)what, 80);
}

static void consume(unsigned i)
{
	for (unsigned part = 0; part < 2; part++) {
		size_t n = held[i][part];

		held[i][part] = 0;
		command_consumed(commands[i], (enum stream_part)(part + PART_STDOUT), n);
	}
}

/* What callers do; a deadline in the past waits for nothing. */
static void act(unsigned what)
{
	unsigned i = what >> 4 & (COMMANDS - 1);
	struct err err;

	switch (what & 15) {
	case 0:
	case 1:
		start_command(i, what & 1, false);
		break;
	case 2:
		forget(i);
		break;
	case 3:
		if (commands[i])
			command_cancel(commands[i]);
		break;
	case 4:
		if (commands[i])
			consume(i);
		break;
	case 5:
		(void)session_put(session, "/f", 0644, input, 5000, 0, &err);
		break;
	case 6:
		(void)session_prepare(session, 5, 0, &err);
		break;
	case 7:
		(void)session_heal(session, 0, &err);
		break;
	case 8:
		(void)session_ping(session, 0, NULL, &err);
		break;
	case 9:
		(void)session_poweroff(session, &err);
		break;
	case 10:
		start_command(i, false, true);
		break;
	case 11:
		feed(i, what & 128);
		break;
	case 12:
		direct(i, what);
		break;
	case 13:
		start_get(i);
		break;
	case 14:
		if (what & 16)
			session_detach(session);
		else
			fd_close(&guest);
		break;
	default:
		attach();
		break;
	}
}

static void step(struct reader *r)
{
	unsigned what = get_u8(r);

	switch (what & 7) {
	case 0:
		say_hello(what & 8, what >> 4);
		break;
	case 1:
		act(get_u8(r));
		break;
	case 2:
		say_much(r);
		break;
	case 3:
		what >>= 3;
		if (what <= (size_t)(r->end - r->at))
			say(reader_take(r, what), what);
		break;
	default:
		say_any(r);
		break;
	}
	turn();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader r = reader_of(bytes_of(data, size));
	struct err err;
	int ours;

	if (!loop_init(&loop, false, &err) || !fd_pair(&ours, &guest, &err))
		abort();
	inbox_clear(&in);
	memset(held, 0, sizeof(held));
	for (int i = 0; i < IDS; i++)
		granted[i] = STREAM_WINDOW;
	session = session_new(&loop, ours);
	keep = get_u8(&r) & 1;
	if (keep)
		session_keep(session);
	turn();
	say_hello(true, 0);
	turn();
	assert(session_is_open(session));
	while (r.at < r.end)
		step(&r);
	session_free(session);
	for (unsigned i = 0; i < COMMANDS; i++)
		forget(i);
	fd_close(&guest);
	return 0;
}
