/* SPDX-License-Identifier: Apache-2.0 */
/* The same host comes back on the same channel: commands stay, and what got lost is known. */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "credit.h"

static struct peer p;
static struct outcome o;
static const char *const env[] = { "PATH=/usr/bin:/bin", NULL };

static void grant(uint32_t stream, uint32_t bytes)
{
	PEER_SEND(&p, CREDIT, credit, stream, .bytes = bytes);
}

/* Waits until the operation has ended in the agent; the channel stays quiet. */
static void wait_ended(uint32_t operations)
{
	struct msg_pong m;

	do {
		PEER_SEND(&p, PING, ping, 0, .token = 1);
		CHECK(get_pong(peer_expect(&p, MSG_PONG, 0).body, &m));
	} while (m.operations != operations);
}

TEST(held_for_the_same_epoch_alone)
{
	peer_open(&p);
	peer_attach(&p);
	CHECK_INT(p.flags, HELLO_HELD);
	peer_attach(&p);
	CHECK_INT(p.flags, HELLO_HELD);
	/* peer_hello wants no flags. */
	peer_hello(&p);
	/* What is given up is forgotten. */
	peer_send(&p, MSG_PONG, 0, bytes_of(NULL, 0));
	peer_expect_greeting(&p);
	peer_attach(&p);
	CHECK_INT(p.flags, 0);
	peer_expect_quiet(&p);
	peer_stop(&p);
}

/* A host that goes on, and an agent without memory whose first answer may have been lost. */
TEST(an_answer_that_nobody_read_proves_nothing)
{
	uint8_t hello[FRAME_OVERHEAD + HELLO_BODY];
	struct msg_hello m = {
		.generation = PROTOCOL_GENERATION, .nonce = { 1 }, .flags = HELLO_HELD
	};
	struct writer w = writer_of(hello + FRAME_HEADER, HELLO_BODY);

	put_hello(&w, &m);
	(void)frame_put(
		hello, &(struct frame){ .type = MSG_HELLO, .body = bytes_of(NULL, HELLO_BODY) });
	peer_start(&p);
	peer_write(&p, hello, sizeof(hello));
	peer_attach(&p);
	CHECK_INT(p.flags, 0);
	peer_attach(&p);
	CHECK_INT(p.flags, HELLO_HELD);
	peer_stop(&p);
}

TEST(an_epoch_of_zeros_is_one_like_any)
{
	peer_start(&p);
	peer_attach(&p);
	CHECK_INT(p.flags, 0);
	peer_attach(&p);
	CHECK_INT(p.flags, HELLO_HELD);
	peer_stop(&p);
}

TEST(outputs_rest_until_asked)
{
	struct msg_status m;

	peer_open(&p);
	peer_shell(&p, 1, EXEC_STDIN, "echo one; read x; echo $x; read x; echo $x");
	CHECK_INT(peer_expect(&p, MSG_DATA, stream_of(1, PART_STDOUT)).body.len, 4);
	peer_attach(&p);
	peer_feed(&p, 1, "two\n", 4, 0);
	peer_expect_quiet(&p);
	m = peer_query(&p, 1);
	CHECK_INT(m.state, STATUS_RUNS);
	CHECK_INT(m.stdin_bytes, 4);
	CHECK_INT(m.stdin_credit, STREAM_WINDOW);
	CHECK_INT(m.stdout_bytes, 4);
	CHECK_INT(m.stderr_bytes, 0);
	CHECK_INT(peer_expect(&p, MSG_DATA, stream_of(1, PART_STDOUT)).body.len, 4);
	peer_feed(&p, 1, "three\n", 6, FRAME_EOF);
	CHECK_INT(peer_expect(&p, MSG_DATA, stream_of(1, PART_STDOUT)).body.len, 6);
	while (peer_next(&p).type != MSG_EXIT)
		;
	peer_stop(&p);
}

TEST(result_is_kept_until_acknowledged)
{
	struct msg_exit m;

	peer_open(&p);
	peer_shell(&p, 1, 0, "exit 3");
	for (int i = 0; i < 5; i++) {
		peer_attach(&p);
		wait_ended(0);
		peer_expect_quiet(&p);
		CHECK_INT(peer_query(&p, 1).state, STATUS_ENDED);
		CHECK(get_exit(peer_expect(&p, MSG_EXIT, stream_of(1, PART_CONTROL)).body, &m));
		CHECK_INT(m.value, 3);
	}
	peer_tell(&p, MSG_ACK, 1);
	CHECK_INT(peer_query(&p, 1).state, STATUS_UNKNOWN);
	CHECK_INT(peer_query(&p, 99).state, STATUS_UNKNOWN);
	peer_expect_quiet(&p);
	peer_stop(&p);
}

TEST(ended_with_output_while_nobody_was_there)
{
	peer_open(&p);
	peer_shell(&p, 1, EXEC_STDIN, "read x; echo out; echo err >&2; exit 4");
	peer_attach(&p);
	peer_feed(&p, 1, "\n", 1, 0);
	/* It has ended, but its output waits. */
	do {
		peer_attach(&p);
	} while (peer_query(&p, 1).state != STATUS_ENDED);
	for (;;) {
		struct frame f = peer_next(&p);

		if (f.type == MSG_EXIT)
			break;
		CHECK_STR(message_name(f.type), "DATA");
	}
	peer_stop(&p);
}

/* What was on its way when the host went is counted. */
TEST(lost_output_is_counted)
{
	const uint32_t stream = stream_of(1, PART_STDOUT);
	uint64_t got = 0, lost = 0;
	struct msg_exit m;

	peer_open(&p);
	peer_shell(&p, 1, 0, "exec head -c 3000000 /dev/zero");
	for (int i = 0; i < 8; i++) {
		struct msg_status status;
		uint32_t some = 0;

		while (some < 100000) {
			struct frame f = peer_expect(&p, MSG_DATA, stream);

			some += (uint32_t)f.body.len;
		}
		got += some;
		peer_wait(&p); /* for bytes that will be lost */
		peer_attach(&p);
		status = peer_query(&p, 1);
		CHECK(status.stdout_bytes >= got + lost);
		lost = status.stdout_bytes - got;
	}
	for (;;) {
		struct frame f = peer_next(&p);

		if (f.type == MSG_EXIT) {
			CHECK(get_exit(f.body, &m));
			break;
		}
		if (stream_part(f.stream) == PART_STDOUT && f.body.len) {
			got += f.body.len;
			grant(stream, (uint32_t)f.body.len);
		}
	}
	CHECK(lost > 0);
	CHECK_INT(m.stdout_bytes, 3000000);
	CHECK_INT(got + lost, 3000000);
	peer_stop(&p);
}

TEST(input_credit_is_told_anew)
{
	static const uint8_t chunk[50000];
	struct msg_status m;

	peer_open(&p);
	peer_shell(&p, 1, EXEC_STDIN, "exec sleep 1000");
	for (int i = 0; i < 4; i++)
		peer_feed(&p, 1, chunk, sizeof(chunk), 0);
	peer_attach(&p);
	m = peer_query(&p, 1);
	CHECK_INT(m.stdin_bytes, 200000);
	/* What a pipe holds has left the agent's hands. */
	CHECK(m.stdin_credit >= STREAM_WINDOW - 200000 + 50000);
	CHECK(m.stdin_credit <= STREAM_WINDOW - 200000 + 65536);
	peer_feed(&p, 1, chunk, sizeof(chunk), 0);
	peer_feed(&p, 1, chunk, sizeof(chunk), FRAME_EOF);
	peer_expect_quiet(&p);
	/* The end may be said again: who said it can't know that it came. */
	peer_attach(&p);
	CHECK_INT(peer_query(&p, 1).stdin_bytes, 300000);
	peer_feed(&p, 1, "", 0, FRAME_EOF);
	peer_expect_quiet(&p);
	peer_feed(&p, 1, "x", 1, 0);
	peer_expect_greeting(&p);
	peer_stop(&p);
}

/* A frame as bytes; returns how many. */
static size_t frame_bytes(
	uint8_t *out, unsigned type, uint32_t stream, unsigned flags, struct bytes body)
{
	return frame_put(out, &(struct frame){ .type = (uint16_t)type,
				      .flags = (uint16_t)flags,
				      .stream = stream,
				      .tag = p.tag,
				      .body = body });
}

static struct bytes exec_body(const char *script)
{
	static uint8_t body[512];
	static struct msg_exec m;
	struct writer w = writer_of(body, sizeof(body));

	m = (struct msg_exec){ .argc = 3, .envc = 1 };
	m.argv[0] = bytes_str("sh");
	m.argv[1] = bytes_str("-c");
	m.argv[2] = bytes_str(script);
	m.env[0] = bytes_str("PATH=/usr/bin:/bin");
	put_exec(&w, &m);
	return bytes_of(body, (size_t)(w.at - body));
}

/* However much of an EXEC came: in the end it ran once. */
TEST_WITHIN(exec_torn_at_every_byte, 60)
{
	const struct bytes body = exec_body("printf x >&7");
	const size_t whole = FRAME_OVERHEAD + body.len;
	char path[] = "/tmp/pair-XXXXXX", script[128];
	int fd = mkstemp(path);
	uint32_t id = 0;

	CHECK(fd >= 0);
	(void)snprintf(script, sizeof(script), "printf x >>%s", path);
	peer_open(&p);
	for (size_t cut = 0; cut <= whole + 20; cut++) {
		uint8_t bytes[1024];
		size_t len = frame_bytes(
			bytes, MSG_EXEC, stream_of(++id, PART_CONTROL), 0, exec_body(script));
		bool all = cut >= len;

		peer_write(&p, bytes, all ? len : cut);
		peer_attach(&p);
		CHECK_INT(peer_query(&p, id).state == STATUS_UNKNOWN, !all);
		if (!all) {
			peer_send(&p, MSG_EXEC, stream_of(id, PART_CONTROL), exec_body(script));
			peer_expect_started(&p, id);
		}
		while (peer_next(&p).type != MSG_EXIT)
			;
		peer_tell(&p, MSG_ACK, id);
	}
	CHECK_INT(lseek(fd, 0, SEEK_END), id);
	close(fd);
	unlink(path);
	peer_stop(&p);
}

TEST_WITHIN(data_torn_at_every_byte, 60)
{
	static const char text[] = "forty bytes of input, more or less, sent";
	uint64_t arrived = 0;
	char want[32];

	peer_open(&p);
	peer_shell(&p, 1, EXEC_STDIN, "exec wc -c");
	for (size_t cut = 0; cut <= FRAME_OVERHEAD + sizeof(text); cut++) {
		uint8_t bytes[256];
		size_t len = frame_bytes(
			bytes, MSG_DATA, stream_of(1, PART_STDIN), 0, bytes_of(text, sizeof(text)));
		uint64_t now;

		peer_write(&p, bytes, cut);
		peer_attach(&p);
		now = peer_query(&p, 1).stdin_bytes;
		CHECK_INT(now - arrived, cut < len ? 0 : sizeof(text));
		if (now == arrived)
			peer_feed(&p, 1, text, sizeof(text), 0);
		arrived += sizeof(text);
	}
	peer_feed(&p, 1, "", 0, FRAME_EOF);
	peer_collect(&p, 1, &o);
	(void)snprintf(want, sizeof(want), "%llu\n", (unsigned long long)arrived);
	CHECK_STR(o.out[0], want);
	peer_stop(&p);
}

TEST_WITHIN(hello_torn_at_every_byte_keeps_commands, 60)
{
	uint8_t hello[FRAME_OVERHEAD + HELLO_BODY];
	struct msg_hello m = { .generation = PROTOCOL_GENERATION, .nonce = { 1 }, .epoch = { 1 } };
	struct writer w = writer_of(hello + FRAME_HEADER, HELLO_BODY);

	put_hello(&w, &m);
	(void)frame_put(
		hello, &(struct frame){ .type = MSG_HELLO, .body = bytes_of(NULL, HELLO_BODY) });
	peer_open(&p);
	peer_shell(&p, 1, EXEC_STDIN, "exec cat");
	for (size_t cut = 0; cut < sizeof(hello); cut++) {
		peer_write(&p, hello, cut);
		peer_attach(&p);
		CHECK_INT(p.flags, HELLO_HELD);
		CHECK_INT(peer_query(&p, 1).state, STATUS_RUNS);
	}
	peer_feed(&p, 1, "still", 5, FRAME_EOF);
	peer_collect(&p, 1, &o);
	CHECK_STR(o.out[0], "still");
	peer_stop(&p);
}

TEST(exec_repeated_at_each_state_runs_once)
{
	const uint32_t control = stream_of(5, PART_CONTROL);
	const struct bytes body = exec_body("echo ran; exec sleep 0.2");
	struct msg_exit m;

	peer_open(&p);
	peer_send(&p, MSG_EXEC, control, body);
	peer_send(&p, MSG_EXEC, control, body);
	peer_attach(&p);
	peer_send(&p, MSG_EXEC, control, body);
	peer_expect_started(&p, 5);
	peer_attach(&p);
	CHECK_INT(peer_query(&p, 5).state, STATUS_RUNS);
	peer_send(&p, MSG_EXEC, control, body);
	for (int started = 0;;) {
		struct frame f = peer_next(&p);

		started += f.type == MSG_STARTED;
		if (f.type != MSG_EXIT)
			continue;
		CHECK_INT(started, 1);
		CHECK(get_exit(f.body, &m));
		CHECK_INT(m.stdout_bytes, 4);
		break;
	}
	peer_attach(&p);
	peer_send(&p, MSG_EXEC, control, body);
	peer_expect(&p, MSG_EXIT, control);
	peer_tell(&p, MSG_ACK, 5);
	peer_expect_quiet(&p);
	peer_stop(&p);
}

TEST(cancel_without_a_query)
{
	struct msg_exit m;

	peer_open(&p);
	peer_shell(&p, 1, 0, "exec yes");
	peer_attach(&p);
	peer_tell(&p, MSG_CANCEL, 1);
	CHECK(get_exit(peer_expect(&p, MSG_EXIT, stream_of(1, PART_CONTROL)).body, &m));
	CHECK_INT(m.flags, EXIT_CANCELLED | EXIT_SIGNALLED);
	peer_stop(&p);
}

TEST(deadline_while_nobody_asks)
{
	const char *const argv[] = { "sleep", "1000", NULL };
	struct msg_exit m;

	peer_open(&p);
	peer_exec(&p, 1, 0, 50, 1000, NULL, argv, env);
	peer_expect_started(&p, 1);
	peer_attach(&p);
	wait_ended(0);
	CHECK_INT(peer_query(&p, 1).state, STATUS_ENDED);
	CHECK(get_exit(peer_expect(&p, MSG_EXIT, stream_of(1, PART_CONTROL)).body, &m));
	CHECK(m.flags & EXIT_TIMED_OUT);
	peer_stop(&p);
}

TEST(failure_while_nobody_asks)
{
	const char *const argv[] = { "/no/such/program", NULL };

	peer_open(&p);
	peer_exec(&p, 1, 0, 0, 0, NULL, argv, env);
	peer_attach(&p);
	/* Said before the channel went, or after it came back: it never ran. */
	if (peer_query(&p, 1).state != STATUS_UNKNOWN)
		peer_expect_failed(&p, 1, FAIL_NOT_FOUND);
	peer_expect_quiet(&p);
	peer_stop(&p);
}

TEST(attach_a_hundred_times_under_flood)
{
	peer_open(&p);
	peer_shell(&p, 1, EXEC_STDIN, "exec cat");
	peer_shell(&p, 2, 0, "exec yes");
	for (int i = 0; i < 100; i++) {
		peer_attach(&p);
		CHECK_INT(peer_query(&p, 2).state, STATUS_RUNS);
	}
	peer_attach(&p);
	CHECK_INT(peer_query(&p, 1).state, STATUS_RUNS);
	peer_feed(&p, 1, "on", 2, FRAME_EOF);
	peer_collect(&p, 1, &o);
	CHECK_STR(o.out[0], "on");
	peer_stop(&p);
}

TEST(another_epoch_ends_everything)
{
	peer_open(&p);
	peer_shell(&p, 1, 0, "exec sleep 1000");
	peer_attach(&p);
	peer_hello(&p);
	CHECK_INT(peer_query(&p, 1).state, STATUS_UNKNOWN);
	wait_ended(0);
	peer_stop(&p);
}
