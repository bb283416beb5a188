/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: what goes in comes out, whatever stands before it and however it is torn. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "messages.h"
#include "outbox.h"

/* Appends a frame to a text of bytes. */
static size_t add_frame(uint8_t *at, uint16_t type, uint32_t tag, const void *body, size_t len)
{
	struct frame f = { .type = type, .tag = tag, .stream = tag ? 7 : 0 };

	f.body = bytes_of(body, len);
	return frame_put(at, &f);
}

static size_t add_hello(uint8_t *at, uint8_t nonce)
{
	struct msg_hello m = { .generation = PROTOCOL_GENERATION };
	uint8_t body[HELLO_BODY];
	struct writer w = writer_of(body, sizeof(body));

	m.nonce[0] = nonce;
	put_hello(&w, &m);
	return add_frame(at, MSG_HELLO, 0, body, sizeof(body));
}

static void feed(struct inbox *in, const uint8_t *data, size_t len)
{
	while (len) {
		size_t room, n;
		uint8_t *space = inbox_space(in, &room);

		CHECK(room > 0);
		n = room < len ? room : len;
		memcpy(space, data, n);
		inbox_filled(in, n);
		data += n;
		len -= n;
	}
}

/* Takes the next frame, which must be a HELLO with this nonce. */
static void expect_hello(struct inbox *in, uint8_t nonce)
{
	struct frame f;
	struct msg_hello m;

	CHECK(inbox_next(in, &f));
	CHECK_INT(f.type, MSG_HELLO);
	CHECK(get_hello(f.body, &m));
	CHECK_INT(m.nonce[0], nonce);
}

TEST(frames_come_out_one_byte_at_a_time)
{
	static struct inbox in;
	uint8_t wire[200];
	size_t len = add_frame(wire, MSG_DATA, 5, "hello", 5);
	struct frame f;
	int got = 0;

	len += add_frame(wire + len, MSG_PING, 5, "12345678", 8);
	for (size_t i = 0; i < len; i++) {
		feed(&in, wire + i, 1);
		while (inbox_next(&in, &f)) {
			CHECK_INT(f.type, got ? MSG_PING : MSG_DATA);
			CHECK_INT(f.tag, 5);
			CHECK_INT(f.stream, 7);
			CHECK_MEM(f.body.data, got ? "12345678" : "hello", got ? 8 : 5);
			got++;
		}
	}
	CHECK_INT(got, 2);
	CHECK_INT(in.skipped, 0);
}

TEST(garbage_before_a_frame_costs_only_itself)
{
	static struct inbox in;
	uint8_t wire[400];
	size_t len = 0;
	struct frame f;

	for (; len < 100; len++)
		wire[len] = (uint8_t)(len * 37);
	memcpy(wire + 50, "\x9b\xe3\xd5\x0a", 4); /* a magic with nothing sound behind it */
	len += add_frame(wire + len, MSG_DATA, 1, "x", 1);
	feed(&in, wire, len);
	CHECK(inbox_next(&in, &f));
	CHECK_INT(f.type, MSG_DATA);
	CHECK_INT(in.skipped, 100);
}

TEST(a_length_is_judged_before_the_payload)
{
	static struct inbox in;
	uint8_t wire[100];
	struct frame big = { .type = MSG_DATA, .body = { NULL, PAYLOAD_MAX + 1 } };
	struct frame f;

	frame_put_header(wire, &big);
	feed(&in, wire, FRAME_HEADER);
	CHECK(!inbox_next(&in, &f));
	CHECK(in.skipped > 0);
	feed(&in, wire, add_frame(wire, MSG_DATA, 1, "y", 1));
	CHECK(inbox_next(&in, &f));
}

TEST(a_hello_is_found_after_a_frame_torn_at_any_byte)
{
	static uint8_t body[300];
	uint8_t torn[400], hello[200];
	size_t torn_len = add_frame(torn, MSG_DATA, 9, body, sizeof(body));
	size_t hello_len = add_hello(hello, 42);

	for (size_t cut = 0; cut < torn_len; cut++) {
		static struct inbox in;

		inbox_clear(&in);
		feed(&in, torn, cut);
		feed(&in, hello, hello_len);
		/* A frame that lacks less than a header may swallow the first HELLO; the host
		 * repeats it. */
		if (torn_len - cut < FRAME_HEADER) {
			struct frame f;

			if (inbox_next(&in, &f) && f.type == MSG_HELLO)
				continue;
			feed(&in, hello, hello_len);
		}
		expect_hello(&in, 42);
	}
}

/* Its missing bytes are the first ones of a HELLO that was torn itself, or has not come whole yet.
 */
TEST(a_torn_frame_is_never_made_whole_by_half_a_hello)
{
	static const uint8_t body[30];
	uint8_t torn[100], hello[200];
	size_t hello_len = add_hello(hello, 42);

	CHECK(!memchr(hello, FRAME_END, FRAME_HEADER));
	for (size_t len = 0; len <= sizeof(body); len++) {
		size_t torn_len = add_frame(torn, MSG_DATA, 9, body, len);

		for (size_t cut = FRAME_HEADER; cut < torn_len; cut++)
			for (size_t part = 0; part < FRAME_HEADER; part++) {
				static struct inbox in;
				struct frame f;

				inbox_clear(&in);
				feed(&in, torn, cut);
				feed(&in, hello, part);
				CHECK(!inbox_next(&in, &f));
				feed(&in, hello, hello_len);
				expect_hello(&in, 42);
			}
	}
}

TEST(a_hello_is_found_inside_a_payload_fed_in_any_pieces)
{
	static uint8_t wire[FRAME_MAX + 400];
	struct frame big = {
		.type = MSG_DATA, .tag = 3, .stream = 1, .body = { NULL, PAYLOAD_MAX }
	};
	size_t len = FRAME_HEADER + 1000;

	frame_put_header(wire, &big);
	len += add_hello(wire + len, 7);
	for (size_t piece = 1; piece < 200; piece++) {
		static struct inbox in;
		struct frame f;
		bool found = false;

		inbox_clear(&in);
		for (size_t at = 0; at < len; at += piece) {
			feed(&in, wire + at, len - at < piece ? len - at : piece);
			if (inbox_next(&in, &f)) {
				CHECK_INT(f.type, MSG_HELLO);
				found = true;
			}
		}
		CHECK(found);
	}
}

TEST(the_largest_frames_pass)
{
	static struct inbox in;
	static uint8_t wire[FRAME_MAX], body[PAYLOAD_MAX];
	struct frame f;

	for (int i = 0; i < 5; i++) {
		size_t len = add_frame(wire, MSG_DATA, 2, body, sizeof(body));

		feed(&in, wire, len);
		CHECK(inbox_next(&in, &f));
		CHECK_INT(f.body.len, PAYLOAD_MAX);
	}
}

TEST(data_is_cut_where_the_header_of_a_hello_stands)
{
	uint8_t data[200] = { 0 };

	CHECK_INT(hello_split(data, sizeof(data)), sizeof(data));
	CHECK_INT(hello_split(data, 0), 0);
	(void)add_hello(data + 50, 1);
	CHECK_INT(hello_split(data, sizeof(data)), 50 + FRAME_HEADER / 2);
	CHECK_INT(hello_split(data + 50, 150), FRAME_HEADER / 2);
	CHECK_INT(hello_split(data + 51, 149), 149);
}

static size_t write_some(struct outbox *out, uint8_t *wire, size_t n)
{
	struct bytes b = outbox_peek(out);

	n = b.len < n ? b.len : n;
	memcpy(wire, b.data, n);
	outbox_wrote(out, n);
	return n;
}

TEST(control_overtakes_bulk_but_tears_nothing)
{
	static struct outbox out;
	static struct inbox in;
	uint8_t wire[500];
	struct frame bulk = { .type = MSG_DATA, .tag = 1, .body = { NULL, 100 } };
	struct frame ping = { .type = MSG_PING, .tag = 1, .body = bytes_of("12345678", 8) };
	struct frame f;
	size_t len;

	memset(outbox_bulk_space(&out), 'b', 100);
	outbox_bulk(&out, &bulk);
	CHECK(!outbox_bulk_space(&out));
	CHECK(outbox_control(&out, &ping));
	len = write_some(&out, wire, 10); /* control first: bulk has not begun */
	CHECK(outbox_control(&out, &ping));
	len += write_some(&out, wire + len, 10);
	while (outbox_peek(&out).len)
		len += write_some(&out, wire + len, 33);
	feed(&in, wire, len);
	CHECK(inbox_next(&in, &f) && f.type == MSG_PING);
	CHECK(inbox_next(&in, &f) && f.type == MSG_PING);
	CHECK(inbox_next(&in, &f) && f.type == MSG_DATA && f.body.len == 100);
	CHECK_INT(in.skipped, 0);

	memset(outbox_bulk_space(&out), 'b', 100);
	outbox_bulk(&out, &bulk);
	len = write_some(&out, wire, 10); /* bulk has begun: it is finished first */
	CHECK(outbox_control(&out, &ping));
	while (outbox_peek(&out).len)
		len += write_some(&out, wire + len, 33);
	feed(&in, wire, len);
	CHECK(inbox_next(&in, &f) && f.type == MSG_DATA);
	CHECK(inbox_next(&in, &f) && f.type == MSG_PING);
}

TEST(the_control_queue_is_bounded)
{
	static struct outbox out;
	struct frame f = { .type = MSG_PONG, .tag = 1, .body = bytes_of("12345678", 8) };
	uint8_t hello[200];
	size_t n = 0, len = add_hello(hello, 1);

	while (outbox_control(&out, &f))
		n++;
	CHECK_INT(n, CONTROL_QUEUE / (FRAME_OVERHEAD + 8));
	CHECK(!outbox_control_room(&out, 1));
	outbox_clear(&out);
	CHECK(outbox_control_room(&out, 8));
	f.body = bytes_of(hello, len);
	CHECK(!outbox_control(&out, &f)); /* would be taken for a HELLO */
}
