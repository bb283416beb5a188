/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent against a host that says anything, and children that do anything.
 *
 * How it works. The agent's own session code runs in this process, turn by turn, in a made-up
 * world. The input is a script: words of the host (frames with the right tag and CRC, torn frames,
 * raw bytes) and doings of children (world.c), of the clock and of a host that does not read. What
 * the agent says is checked: every frame is legal and decodes, and no stream gets more than its
 * credit. One agent lives through all inputs; each ends with a HELLO of a new epoch, which has to
 * be answered, after which nothing of the input may be left.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "frame.h"
#include "world.h"
#include "messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define IDS 24 /* that the script uses */

static const struct agent_place place = { .ready = -1, .enter_system = true, .owns_machine = true };

static struct host {
	bool begun;
	bool open;    /* the last HELLO was answered */
	bool stalled; /* nothing is read */
	uint8_t nonce[16], epoch[16];
	struct inbox in;
	struct {
		bool begun;
		uint64_t may_come[2]; /* of its outputs */
		int64_t may_go;	      /* of its input; less than nothing breaks the rules */
		bool asked;	      /* by QUERY: may_go is not known exactly */
	} ops[IDS];
} host;

static void on_hello(const struct frame *f)
{
	static const uint8_t none[16];
	struct msg_hello m;

	assert(get_hello(f->body, &m));
	if (!memcmp(m.nonce, host.nonce, sizeof(m.nonce))) {
		assert(!memcmp(m.epoch, host.epoch, sizeof(m.epoch)));
		host.open = true;
	} else if (!memcmp(m.nonce, none, sizeof(none))) {
		host.open = false;
		for (size_t i = 0; i < IDS; i++)
			host.ops[i].begun = false;
	}
}

static void on_data(const struct frame *f)
{
	uint32_t id = stream_id(f->stream);
	unsigned part = stream_part(f->stream) - PART_STDOUT;

	assert(id < IDS && part < 2 && f->body.len <= host.ops[id].may_come[part]);
	host.ops[id].may_come[part] -= f->body.len;
}

static void on_credit(const struct frame *f)
{
	uint32_t id = stream_id(f->stream);
	struct msg_credit m;

	assert(get_credit(f->body, &m) && id < IDS && stream_part(f->stream) == PART_STDIN);
	host.ops[id].may_go += m.bytes;
	assert(host.ops[id].asked || host.ops[id].may_go <= STREAM_WINDOW);
}

#define DECODES(name)                                                                              \
	static bool decodes_##name(struct bytes body)                                              \
	{                                                                                          \
		static struct msg_##name m;                                                        \
                                                                                                   \
		return get_##name(body, &m);                                                       \
	}

DECODES(started)
DECODES(failed)
DECODES(exit)
DECODES(done)
DECODES(prepared)
DECODES(healed)
DECODES(pong)
DECODES(status)

/* The operation is over, unless the id was taken by another that goes on. */
static void on_failed(const struct frame *f)
{
	uint32_t id = stream_id(f->stream);
	struct msg_failed m;

	assert(get_failed(f->body, &m) && id < IDS);
	host.ops[id].begun = m.kind == FAIL_BUSY;
	host.ops[id].asked = m.kind == FAIL_BUSY;
}

static bool (*const decodes[])(struct bytes body) = {
	[MSG_STARTED] = decodes_started,
	[MSG_FAILED] = decodes_failed,
	[MSG_EXIT] = decodes_exit,
	[MSG_DONE] = decodes_done,
	[MSG_PREPARED] = decodes_prepared,
	[MSG_HEALED] = decodes_healed,
	[MSG_PONG] = decodes_pong,
	[MSG_STATUS] = decodes_status,
};

static void on_frame(const struct frame *f)
{
	assert(message_legal(f->type, FROM_GUEST, ANY_PHASE));
	if (f->type == MSG_HELLO) {
		on_hello(f);
		return;
	}
	if (f->tag != session_tag(host.nonce))
		return; /* said before our last HELLO came */
	assert(host.open);
	if (f->type == MSG_DATA)
		on_data(f);
	else if (f->type == MSG_CREDIT)
		on_credit(f);
	else
		assert(decodes[f->type](f->body));
	if (f->type == MSG_FAILED)
		on_failed(f);
}

/* Takes what the agent said. */
static void listen_to_agent(void)
{
	struct frame f;
	size_t n, room;

	do {
		uint8_t *space = inbox_space(&host.in, &room);

		n = world_hear(space, room);
		inbox_filled(&host.in, n);
		while (inbox_next(&host.in, &f))
			on_frame(&f);
	} while (n);
}

static void turn(void)
{
	agent_turn();
	if (!host.stalled)
		listen_to_agent();
}

/* An agent that takes nothing, because nobody reads what it says, is not waited for. */
static void say(const void *data, size_t len)
{
	for (int i = 0; len && i < 8; i++) {
		size_t n = world_say(data, len);

		data = (const uint8_t *)data + n;
		len -= n;
		if (len)
			turn();
	}
}

/* What a frame changes in our books; a generous guess where an answer may be under way. */
static void count(unsigned type, uint32_t stream, struct bytes body)
{
	uint32_t id = stream_id(stream);
	struct msg_credit credit;
	struct msg_query query;
	unsigned part = stream_part(stream) - PART_STDOUT;

	if (id >= IDS)
		return;
	if (type == MSG_EXEC || type == MSG_GET || type == MSG_PUT) {
		host.ops[id].may_come[0] = (host.stalled + 1u) * STREAM_WINDOW;
		host.ops[id].may_come[1] = (host.stalled + 1u) * STREAM_WINDOW;
		if (!host.ops[id].begun)
			host.ops[id].may_go = STREAM_WINDOW;
		host.ops[id].asked = host.stalled || (host.ops[id].begun && host.ops[id].asked);
		host.ops[id].begun = true;
	} else if (type == MSG_ACK) {
		host.ops[id].begun = false;
	} else if (type == MSG_CREDIT && part < 2 && get_credit(body, &credit)) {
		host.ops[id].may_come[part] += credit.bytes;
	} else if (type == MSG_QUERY && get_query(body, &query)) {
		host.ops[id].may_come[0] += query.stdout_credit;
		host.ops[id].may_come[1] += query.stderr_credit;
		host.ops[id].asked = true;
	} else if (type == MSG_DATA) {
		host.ops[id].may_go -= (int64_t)body.len;
	}
}

static void say_frame(unsigned type, uint32_t stream, unsigned flags, struct bytes body)
{
	uint8_t header[FRAME_HEADER];
	const struct frame f = {
		.type = (uint16_t)type,
		.flags = (uint16_t)flags,
		.stream = stream,
		.tag = type == MSG_HELLO ? 0 : session_tag(host.nonce),
		.body = body,
	};

	frame_put_header(header, &f);
	count(type, stream, body);
	say(header, sizeof(header));
	say(body.data, body.len);
	say((const uint8_t[]){ FRAME_END }, 1);
}

#define SAY(CODE, codec, stream, ...)                                                              \
	do {                                                                                       \
		static uint8_t body_[4096];                                                        \
		struct writer w_ = writer_of(body_, sizeof(body_));                                \
		put_##codec(&w_, &(struct msg_##codec){ __VA_ARGS__ });                            \
		say_frame(MSG_##CODE, stream, 0, bytes_of(body_, (size_t)(w_.at - body_)));        \
	} while (0)

/* A session, of the same epoch or a new one. */
static void say_hello(bool anew, uint16_t flags)
{
	struct msg_hello m = { .generation = PROTOCOL_GENERATION, .flags = flags };
	uint8_t body[HELLO_BODY];
	struct writer w = writer_of(body, sizeof(body));

	for (size_t i = 0; i < sizeof(host.nonce) && !++host.nonce[i]; i++)
		;
	for (size_t i = 0; anew && i < sizeof(host.epoch) && !++host.epoch[i]; i++)
		;
	host.open = false;
	for (size_t i = 0; i < IDS; i++) {
		host.ops[i].may_come[0] = host.ops[i].may_come[1] = 0;
		host.ops[i].begun = host.ops[i].begun && !anew;
		host.ops[i].asked = true;
	}
	memcpy(m.nonce, host.nonce, sizeof(m.nonce));
	memcpy(m.epoch, host.epoch, sizeof(m.epoch));
	put_hello(&w, &m);
	say_frame(MSG_HELLO, 0, 0, bytes_of(body, sizeof(body)));
}

/* Up to `most` bytes of the script. */
static struct bytes take(struct reader *r, size_t most)
{
	size_t len = get_u8(r), left = (size_t)(r->end - r->at);

	len = len < most ? len : most;
	len = len < left && !r->bad ? len : 0;
	return bytes_of(len ? reader_take(r, len) : (const void *)"", len);
}

static uint32_t take_stream(struct reader *r)
{
	unsigned where = get_u8(r);

	return stream_of(where >> 2 & 15, (enum stream_part)(where & 3));
}

static uint32_t take_id(struct reader *r)
{
	return stream_of(1 + get_u8(r) % (IDS - 1), PART_CONTROL);
}

static void do_exec(struct reader *r)
{
	uint32_t stream = take_id(r);
	unsigned flags = get_u8(r), times = get_u8(r);

	SAY(EXEC, exec, stream, .flags = flags & 7, .rows = flags & 4 ? 24 : 0,
		.deadline_ms = (times & 7) * 100, .grace_ms = (times >> 3 & 3) * 100,
		.output_max = (times >> 5 & 1) * 1000, .argc = 1, .argv = { bytes_str("x") });
}

static void do_transfer(struct reader *r)
{
	uint32_t stream = take_id(r);
	unsigned flags = get_u8(r);

	if (flags & 4)
		SAY(PUT, put, stream, .flags = flags & 1, .path = bytes_str("/f"));
	else
		SAY(GET, get, stream, .flags = flags & 3, .path = bytes_str("/f"));
}

/* A flood, up to what may be sent and over it. */
static void do_data(struct reader *r)
{
	static const uint8_t zeros[PAYLOAD_MAX];
	uint32_t stream = take_stream(r);
	unsigned len = get_u16(r), flags = get_u8(r);

	say_frame(MSG_DATA, stream, flags & 1, bytes_of(zeros, len));
	for (unsigned i = flags >> 4; i; i--)
		say_frame(MSG_DATA, stream, 0, bytes_of(zeros, sizeof(zeros)));
}

static void do_credit(struct reader *r)
{
	static const uint32_t amounts[] = { 1, 1000, 65536, 200000, STREAM_WINDOW };
	uint32_t stream = take_stream(r);

	SAY(CREDIT, credit, stream, .bytes = amounts[get_u8(r) % 5]);
}

static void do_control(struct reader *r)
{
	unsigned what = get_u8(r);
	uint32_t stream = take_id(r);

	switch (what % 8) {
	case 0:
		say_frame(MSG_CANCEL, stream, 0, bytes_of(NULL, 0));
		break;
	case 1:
	case 2:
		say_frame(MSG_ACK, stream, 0, bytes_of(NULL, 0));
		break;
	case 3:
		SAY(SIGNAL, signal, stream, .number = (uint16_t)(1 + what / 8));
		break;
	case 4:
		SAY(RESIZE, resize, stream, .rows = (uint16_t)what, .columns = 80);
		break;
	default:
		SAY(QUERY, query, stream, .stdout_credit = what / 8 * 8000u,
			.stderr_credit = STREAM_WINDOW / 2);
		break;
	}
}

static void do_machine(struct reader *r)
{
	unsigned what = get_u8(r);

	switch (what % 5) {
	case 0:
	case 1:
		SAY(PREPARE, prepare, 0, .deadline_ms = 1 + what * 10);
		break;
	case 2:
		SAY(HEAL, heal, 0, .realtime_ns = what, .seed = take(r, SEED_MAX));
		break;
	case 3:
		SAY(PING, ping, 0, .token = what);
		break;
	default:
		say_frame(what & 8 ? MSG_REBOOT : MSG_POWEROFF, 0, 0, bytes_of(NULL, 0));
		break;
	}
}

/* Any type, stream and flags, with a body from the script. */
static void do_any(struct reader *r)
{
	unsigned type = get_u8(r) % 28, where = get_u8(r), flags = get_u8(r);
	struct bytes body = take(r, 255);

	if (type != MSG_HELLO)
		say_frame(type, stream_of(where >> 2 & 15, (enum stream_part)(where & 3)),
			flags < 200 ? 0 : flags & 3, body);
}

static void do_torn(struct reader *r)
{
	uint8_t frame[FRAME_OVERHEAD + 8] = { 0 };

	(void)frame_put(frame,
		&(struct frame){
			.type = MSG_PING, .tag = session_tag(host.nonce), .body = { NULL, 8 } });
	say(frame, get_u8(r) % sizeof(frame));
	say_hello(false, HELLO_HELD);
}

static void do_raw(struct reader *r)
{
	struct bytes bytes = take(r, 255);

	say(bytes.data, bytes.len);
}

static void do_hello(struct reader *r)
{
	unsigned what = get_u8(r);

	say_hello(what & 1, what >> 1 & HELLO_HELD);
}

static void do_time(struct reader *r)
{
	world_time += get_u8(r) * 20u;
}

static void do_stall(struct reader *r)
{
	unsigned what = get_u8(r);

	host.stalled = what & 1;
	if (what < 16)
		world_reopen();
}

static void (*const steps[])(struct reader *r) = { do_exec, do_transfer, do_data, do_credit,
	do_control, do_machine, do_any, do_torn, do_raw, do_hello, do_time, do_stall, world_act,
	world_act, world_act, world_act };

/* The lowest descriptor that is free: one that leaks takes its place. */
static int free_descriptor(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

/* A HELLO is answered, and all that the input began is gone. */
static void finish(void)
{
	host.stalled = false;
	world_end();
	world_time += 1u << 31;
	for (int i = 0; i < 8; i++)
		turn();
	say_hello(true, 0);
	for (int i = 0; i < 8 && !host.open; i++)
		turn();
	assert(host.open);
	turn();
}

static void begin(void)
{
	host.begun = true;
	agent_begin(&place);
	finish();
	SAY(PING, ping, 0, .token = 1); /* which opens files for good */
	finish();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader r = reader_of(bytes_of(data, size));
	int descriptor;

	if (!host.begun)
		begin();
	descriptor = free_descriptor();
	while (r.at < r.end && !r.bad) {
		steps[get_u8(&r) % (sizeof(steps) / sizeof(*steps))](&r);
		turn();
	}
	finish();
	assert(free_descriptor() == descriptor);
	return 0;
}
