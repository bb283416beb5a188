/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: greeting, torn bytes, stale frames, broken rules. */
#include "peer.h"

#include <string.h>
#include <unistd.h>

static struct peer p;

static struct bytes ping(uint8_t body[8])
{
	memset(body, 0x41, 8);
	return bytes_of(body, 8);
}

TEST(greets_unasked)
{
	peer_start(&p);
	peer_expect_greeting(&p);
	peer_stop(&p);
}

/* Nobody answered: it may have been lost. */
TEST(greets_again)
{
	peer_start(&p);
	peer_expect_greeting(&p);
	peer_expect_greeting(&p);
	peer_stop(&p);
}

TEST(answers_with_boot_id)
{
	static const uint8_t none[16];

	peer_open(&p);
	CHECK(memcmp(p.boot_id, none, sizeof(none)) != 0);
	peer_expect_quiet(&p);
	peer_stop(&p);
}

/* A frame of the largest size is torn at each of these places; the next session begins inside. */
TEST(hello_inside_a_torn_frame)
{
	static uint8_t whole[FRAME_MAX];
	const struct frame f = { .type = MSG_DATA,
		.stream = stream_of(5, PART_STDIN),
		.body = bytes_of(NULL, PAYLOAD_MAX) };

	peer_open(&p);
	memset(whole, 'x', sizeof(whole));
	for (size_t cut = 0; cut <= FRAME_MAX; cut += cut < 40 ? 1 : 5001) {
		struct frame torn = f;

		torn.tag = p.tag;
		frame_put_header(whole, &torn);
		peer_write(&p, whole, cut);
		peer_hello(&p);
		peer_expect_quiet(&p);
	}
	peer_stop(&p);
}

TEST(hello_torn_itself)
{
	uint8_t hello[FRAME_OVERHEAD + HELLO_BODY];
	struct msg_hello m = { .generation = 1, .nonce = { 1 } };
	struct writer w = writer_of(hello + FRAME_HEADER, HELLO_BODY);
	const struct frame f = { .type = MSG_HELLO, .body = bytes_of(NULL, HELLO_BODY) };

	put_hello(&w, &m);
	(void)frame_put(hello, &f);
	peer_open(&p);
	for (size_t cut = 0; cut < sizeof(hello); cut++) {
		peer_write(&p, hello, cut);
		peer_hello(&p);
		peer_expect_quiet(&p);
	}
	peer_stop(&p);
}

TEST(garbage_is_skipped)
{
	uint8_t noise[5000];

	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (uint8_t)(i * 167 + i / 7);
	peer_open(&p);
	peer_write(&p, noise, sizeof(noise));
	peer_expect_quiet(&p);
	peer_stop(&p);
}

TEST(bytes_one_by_one)
{
	uint8_t frame[FRAME_OVERHEAD + 8], body[8];
	struct frame f = { .type = MSG_PING, .body = ping(body) };

	peer_open(&p);
	f.tag = p.tag;
	(void)frame_put(frame, &f);
	for (size_t i = 0; i < sizeof(frame); i++)
		peer_write(&p, frame + i, 1);
	peer_expect(&p, MSG_PONG, 0);
	peer_stop(&p);
}

TEST(stale_tag_is_dropped)
{
	uint32_t now, before;
	uint8_t body[8];

	peer_open(&p);
	before = p.tag;
	peer_hello(&p);
	now = p.tag;
	p.tag = before;
	peer_send(&p, MSG_PING, 0, ping(body));
	peer_send(&p, MSG_PREPARE, 0, ping(body));
	p.tag = now;
	peer_expect_quiet(&p);
	peer_stop(&p);
}

TEST(nothing_but_hello_before_hello)
{
	uint8_t body[8];

	peer_start(&p);
	peer_expect_greeting(&p);
	peer_send(&p, MSG_PING, 0, ping(body));
	peer_hello(&p);
	peer_expect_quiet(&p);
	peer_stop(&p);
}

TEST(unknown_type_is_skipped)
{
	peer_open(&p);
	peer_send(&p, 999, 0, bytes_str("whatever"));
	peer_expect_quiet(&p);
	peer_stop(&p);
}

/* Sends what must end the session, and begins a new one. */
static void breaks(unsigned type, uint32_t stream, unsigned flags, struct bytes body)
{
	peer_send_flags(&p, type, stream, flags, body);
	peer_expect_greeting(&p);
	peer_hello(&p);
	peer_expect_quiet(&p);
}

TEST(broken_rules_end_the_session)
{
	const uint32_t control = stream_of(1, PART_CONTROL);
	uint8_t zeros[64] = { 0 };
	const struct {
		unsigned type;
		uint32_t stream;
		unsigned flags;
		struct bytes body;
	} cases[] = {
		{ MSG_PING, 0, 0, bytes_of(zeros, 7) },
		{ MSG_PING, 0, 0, bytes_of(zeros, 9) },
		{ MSG_PING, 4, 0, bytes_of(zeros, 8) },
		{ MSG_PING, 0, 1, bytes_of(zeros, 8) },
		{ MSG_EXEC, control, 0, bytes_of(NULL, 0) },
		{ MSG_EXEC, control, 0, bytes_of(zeros, 34) }, /* no argument at all */
		{ MSG_EXEC, control, 0, bytes_of(zeros, 64) },
		{ MSG_DATA, stream_of(1, PART_STDOUT), 0, bytes_of(zeros, 1) },
		{ MSG_DATA, 0, 0, bytes_of(zeros, 1) },
		{ MSG_DATA, stream_of(1, PART_STDIN), 2, bytes_of(zeros, 1) },
		{ MSG_CREDIT, stream_of(1, PART_STDOUT), 0, bytes_of(zeros, 4) }, /* nothing */
		{ MSG_CREDIT, stream_of(1, PART_STDIN), 0, bytes_of("\0\0\0\1", 4) },
		{ MSG_CREDIT, stream_of(1, PART_STDERR), 0, bytes_of("\0\0\1", 3) },
		{ MSG_CREDIT, stream_of(1, PART_STDERR), 0, bytes_of("\0\4\0\1", 4) },
		{ MSG_CANCEL, control, 0, bytes_of(zeros, 1) },
		{ MSG_CANCEL, stream_of(1, PART_STDIN), 0, bytes_of(NULL, 0) },
		{ MSG_ACK, control, 0, bytes_of(zeros, 1) },
		{ MSG_ACK, stream_of(0, PART_CONTROL), 0, bytes_of(NULL, 0) },
		{ MSG_PUT, control, 0, bytes_of(zeros, 6) }, /* no path */
		{ MSG_PUT, control, 0, bytes_of("\0\0\0\0\0\1/", 7) },
		{ MSG_PUT, control, 0, bytes_of("\0\2\0\0\0\2/x", 8) }, /* a manifest */
		{ MSG_PUT, 0, 0, bytes_of("\0\0\0\0\0\2/x", 8) },
		{ MSG_GET, control, 0, bytes_of("\0\0\0\0\0\1x", 7) },
		{ MSG_GET, control, 0, bytes_of("\0\4\0\0\0\1/", 7) },
		{ MSG_GET, control, 1, bytes_of("\0\0\0\0\0\1/", 7) },
		{ MSG_SIGNAL, control, 0, bytes_of("\0\0", 2) },
		{ MSG_SIGNAL, control, 0, bytes_of("\0\101", 2) },
		{ MSG_SIGNAL, control, 0, bytes_of("\0\1\0", 3) },
		{ MSG_RESIZE, control, 0, bytes_of(zeros, 3) },
		{ MSG_RESIZE, stream_of(1, PART_STDIN), 0, bytes_of(zeros, 4) },
		{ MSG_QUERY, control, 0, bytes_of(zeros, 7) },
		{ MSG_QUERY, control, 0, bytes_of("\0\4\0\1\0\0\0\0", 8) },
		{ MSG_QUERY, 0, 0, bytes_of(zeros, 8) },
		{ MSG_PREPARE, 0, 0, bytes_of(zeros, 4) }, /* no deadline */
		{ MSG_PREPARE, 0, 0, bytes_of("\0\0\1\0\0", 5) },
		{ MSG_HEAL, 0, 0, bytes_of(zeros, 11) },
		{ MSG_HEAL, 0, 0, bytes_of(zeros, 13) },
		{ MSG_POWEROFF, 0, 0, bytes_of(zeros, 1) },
		{ MSG_REBOOT, control, 0, bytes_of(NULL, 0) },
	};

	peer_open(&p);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		breaks(cases[i].type, cases[i].stream, cases[i].flags, cases[i].body);
	peer_stop(&p);
}

TEST(new_session_kills_the_old_commands)
{
	static struct outcome o;

	peer_open(&p);
	peer_shell(&p, 1, 0, "trap '' TERM HUP; echo $$; exec sleep 1000");
	CHECK_INT(stream_id(peer_next(&p).stream), 1);
	peer_hello(&p);
	peer_expect_quiet(&p);
	/* The id is free again, and nobody is left in the sessions of the agent's children. */
	peer_shell(&p, 1, 0, "while pgrep -x sleep -P $PPID; do :; done >/dev/null; echo gone");
	peer_collect(&p, 1, &o);
	CHECK_STR(o.out[0], "gone\n");
	peer_stop(&p);
}

/* A body for each message that decodes; what it says is harmless. */
static struct bytes body_of(unsigned type)
{
	static uint8_t body[256];
	struct writer w = writer_of(body, sizeof(body));
	static struct msg_exec exec = { .argc = 1, .argv = { { (const uint8_t *)"true", 4 } } };

	switch (type) {
	case MSG_EXEC:
		put_exec(&w, &exec);
		break;
	case MSG_CREDIT:
		put_credit(&w, &(struct msg_credit){ 1 });
		break;
	case MSG_PUT:
		put_put(&w, &(struct msg_put){ 0, bytes_str("/proc/nowhere") });
		break;
	case MSG_GET:
		put_get(&w, &(struct msg_get){ 0, bytes_str("/etc/hostname") });
		break;
	case MSG_PREPARE:
		put_prepare(&w, &(struct msg_prepare){ 1000 });
		break;
	case MSG_HEAL:
		put_heal(&w, &(struct msg_heal){ 0 });
		break;
	case MSG_PING:
		put_ping(&w, &(struct msg_ping){ 1 });
		break;
	case MSG_SIGNAL:
		put_signal(&w, &(struct msg_signal){ 10 });
		break;
	case MSG_RESIZE:
		put_resize(&w, &(struct msg_resize){ 1, 1 });
		break;
	case MSG_QUERY:
		put_query(&w, &(struct msg_query){ 0 });
		break;
	default:
		break;
	}
	return bytes_of(body, (size_t)(w.at - body));
}

static uint32_t place_of(unsigned type)
{
	switch (type) {
	case MSG_PREPARE:
	case MSG_HEAL:
	case MSG_PING:
	case MSG_HELLO:
		return 0;
	case MSG_DATA:
		return stream_of(1, PART_STDIN);
	case MSG_CREDIT:
		return stream_of(1, PART_STDOUT);
	default:
		return stream_of(1, PART_CONTROL);
	}
}

/* Whether the agent gave the session up, and greets, or goes on and answers a PING. */
static bool session_ended(void)
{
	static const uint8_t none[16];
	struct msg_hello hello;
	struct msg_pong pong;
	uint8_t token[8];

	peer_send(&p, MSG_PING, 0, ping(token));
	for (;;) {
		struct frame f = peer_next(&p);

		if (f.type == MSG_PONG && get_pong(f.body, &pong) && pong.token >> 56 == 0x41)
			return false;
		if (f.type == MSG_HELLO && get_hello(f.body, &hello) &&
			!memcmp(hello.nonce, none, sizeof(none)))
			return true;
	}
}

/* The table of the protocol, judged by the agent. */
TEST(each_message_while_open)
{
	peer_open(&p);
	for (unsigned type = 2; message_known(type); type++) {
		if (type == MSG_POWEROFF || type == MSG_REBOOT)
			continue;
		peer_hello(&p);
		peer_send(&p, type, place_of(type), body_of(type));
		CHECK_INT(session_ended(), !message_legal(type, FROM_HOST, OPEN));
	}
	peer_stop(&p);
}

/* Before a HELLO nothing counts: it has no tag of a session. */
TEST(each_message_before_hello)
{
	peer_start(&p);
	for (unsigned type = 2; message_known(type); type++)
		peer_send(&p, type, place_of(type), body_of(type));
	peer_hello(&p);
	peer_expect_quiet(&p);
	peer_stop(&p);
}

/* In one piece with the PREPARE before it, a message finds the phase frozen. */
TEST(each_message_while_frozen)
{
	peer_open(&p);
	for (unsigned type = 2; message_known(type); type++) {
		struct bytes prepare = body_of(MSG_PREPARE), body;
		uint8_t both[512];
		size_t len;

		/* HEAL has to wait for PREPARED, and the last two end the agent. */
		if (type == MSG_HEAL || type == MSG_POWEROFF || type == MSG_REBOOT)
			continue;
		peer_hello(&p);
		len = frame_put(both,
			&(struct frame){ .type = MSG_PREPARE, .tag = p.tag, .body = prepare });
		body = body_of(type);
		len += frame_put(both + len, &(struct frame){ .type = (uint16_t)type,
						     .stream = place_of(type),
						     .tag = p.tag,
						     .body = body });
		peer_write(&p, both, len);
		CHECK_INT(session_ended(), !message_legal(type, FROM_HOST, FROZEN));
	}
	peer_stop(&p);
}

TEST(pong_tells_how_the_guest_is)
{
	struct msg_pong m;
	uint8_t body[8];

	peer_open(&p);
	peer_shell(&p, 1, 0, "exec sleep 1000");
	peer_send(&p, MSG_PING, 0, ping(body));
	CHECK(get_pong(peer_expect(&p, MSG_PONG, 0).body, &m));
	CHECK(m.token == 0x4141414141414141u);
	CHECK(m.uptime_ms > 1000);
	CHECK_INT(m.operations, 1);
	CHECK(m.cpu <= 10000 || m.cpu == PRESSURE_UNKNOWN);
	peer_stop(&p);
}

TEST(poweroff_ends_the_agent)
{
	peer_open(&p);
	peer_send(&p, MSG_POWEROFF, 0, bytes_of(NULL, 0));
	peer_stop(&p);
}

TEST(reboot_ends_the_agent)
{
	peer_open(&p);
	peer_send(&p, MSG_REBOOT, 0, bytes_of(NULL, 0));
	peer_stop(&p);
}
