/* SPDX-License-Identifier: Apache-2.0 */
/* Output and input: every byte, within credit, each stream by itself. */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "credit.h"

static struct peer p;
static struct outcome o;

#define CONTROL(id) stream_of(id, PART_CONTROL)

static void grant(uint32_t stream, uint32_t bytes)
{
	PEER_SEND(&p, CREDIT, credit, stream, .bytes = bytes);
}

/* Takes `size` bytes of stdout, each the low byte of its place, granting in small steps. */
static void check_output(size_t size)
{
	const uint32_t stream = stream_of(1, PART_STDOUT);
	char script[256];
	struct msg_exit m;
	uint32_t owed = 0;
	size_t at = 0;

	(void)snprintf(script, sizeof(script),
		"perl -e 'my $b = join(\"\", map chr, 0..255) x 256; my $n = %zu; while ($n > 0) { "
		"my $k = $n < 65536 ? $n : 65536; syswrite STDOUT, $b, $k; $n -= $k }'",
		size);
	peer_shell(&p, 1, 0, script);
	for (;;) {
		struct frame f = peer_next(&p);

		if (f.type == MSG_EXIT) {
			CHECK(get_exit(f.body, &m));
			break;
		}
		CHECK_STR(message_name(f.type), "DATA");
		for (size_t i = 0; i < f.body.len; i++, at++)
			if (f.body.data[i] != (uint8_t)at)
				CHECK_INT(f.body.data[i], (uint8_t)at);
		owed += stream == f.stream ? (uint32_t)f.body.len : 0;
		/* A slow reader: only when all has been used up. */
		if (owed == STREAM_WINDOW) {
			grant(stream, 1000);
			grant(stream, STREAM_WINDOW - 1000);
			owed = 0;
		}
	}
	CHECK_INT(at, size);
	CHECK_INT(m.stdout_bytes, size);
	CHECK_INT(m.value, 0);
	peer_send(&p, MSG_ACK, CONTROL(1), bytes_of(NULL, 0));
}

TEST(output_around_64_kib)
{
	peer_open(&p);
	check_output(65535);
	check_output(65536);
	check_output(65537);
	check_output(STREAM_WINDOW);
	check_output(STREAM_WINDOW + 1);
	peer_stop(&p);
}

TEST_WITHIN(output_of_16_mib, 60)
{
	peer_open(&p);
	check_output(16 << 20);
	peer_stop(&p);
}

TEST(a_hello_header_in_the_output_arrives)
{
	uint8_t header[FRAME_HEADER];
	char script[256] = "printf '";
	const char *end = "'";

	frame_put_header(
		header, &(struct frame){ .type = MSG_HELLO, .body = { NULL, HELLO_BODY } });
	for (int twice = 0; twice < 2; twice++)
		for (size_t i = 0; i < sizeof(header); i++)
			(void)snprintf(script + strlen(script), 5, "\\%03o", header[i]);
	strcat(script, end);
	peer_open(&p);
	peer_shell(&p, 1, 0, script);
	peer_collect(&p, 1, &o);
	CHECK_INT(o.len[0], 2 * sizeof(header));
	CHECK_MEM(o.out[0], header, sizeof(header));
	CHECK_MEM(o.out[0] + sizeof(header), header, sizeof(header));
	peer_stop(&p);
}

TEST(stdout_and_stderr_are_independent)
{
	size_t err = 0, out = 0;

	peer_open(&p);
	/* stderr gets no credit beyond its first window, and fills it and the pipe. */
	peer_shell(&p, 1, 0,
		"head -c 400000 /dev/zero >&2 & head -c 1000000 /dev/zero; echo end; wait");
	while (out < 1000004 || err < STREAM_WINDOW) {
		struct frame f = peer_next(&p);

		CHECK_STR(message_name(f.type), "DATA");
		if (f.stream == stream_of(1, PART_STDOUT)) {
			out += f.body.len;
			grant(f.stream, (uint32_t)f.body.len);
		} else {
			err += f.body.len;
		}
	}
	CHECK_INT(out, 1000004);
	CHECK_INT(err, STREAM_WINDOW);
	peer_expect_quiet(&p);
	grant(stream_of(1, PART_STDERR), STREAM_WINDOW);
	while (err < 400000) {
		struct frame f = peer_next(&p);

		err += f.stream == stream_of(1, PART_STDERR) ? f.body.len : 0;
	}
	while (peer_next(&p).type != MSG_EXIT)
		;
	CHECK_INT(err, 400000);
	peer_stop(&p);
}

/* What was written before the end is not lost, though its writer is long gone. */
TEST(output_outlives_its_writer)
{
	size_t got = 0;

	peer_open(&p);
	peer_shell(&p, 1, 0, "head -c 300000 /dev/zero; sleep 1000 & exit 3");
	while (got < STREAM_WINDOW)
		got += peer_expect(&p, MSG_DATA, stream_of(1, PART_STDOUT)).body.len;
	peer_expect_quiet(&p);
	peer_check_shell(&p, 2, "echo other commands go on", 0, "other commands go on\n");
	grant(stream_of(1, PART_STDOUT), STREAM_WINDOW);
	for (;;) {
		struct frame f = peer_next(&p);
		struct msg_exit m;

		got += f.type == MSG_DATA ? f.body.len : 0;
		if (f.type != MSG_EXIT)
			continue;
		CHECK(get_exit(f.body, &m));
		CHECK_INT(m.value, 3);
		CHECK_INT(m.left_behind, 1);
		CHECK_INT(m.stdout_bytes, 300000);
		break;
	}
	CHECK_INT(got, 300000);
	peer_stop(&p);
}

TEST(cancel_without_credit)
{
	size_t got = 0;

	peer_open(&p);
	peer_shell(&p, 1, 0, "exec yes");
	while (got < STREAM_WINDOW)
		got += peer_expect(&p, MSG_DATA, stream_of(1, PART_STDOUT)).body.len;
	peer_send(&p, MSG_CANCEL, CONTROL(1), bytes_of(NULL, 0));
	/* The ends of streams may come before it, but no byte beyond the window. */
	for (struct frame f = peer_next(&p); f.type != MSG_EXIT; f = peer_next(&p)) {
		CHECK_STR(message_name(f.type), "DATA");
		CHECK_INT(f.body.len, 0);
	}
	peer_stop(&p);
}

TEST(ping_under_flood)
{
	peer_open(&p);
	peer_shell(&p, 1, 0, "exec yes");
	for (int i = 0; i < 200; i++) {
		struct frame f;

		PEER_SEND(&p, PING, ping, 0, .token = 1);
		do {
			f = peer_next(&p);
			if (f.type == MSG_DATA && f.body.len)
				grant(f.stream, (uint32_t)f.body.len);
		} while (f.type != MSG_PONG);
	}
	peer_stop(&p);
}

/* One command floods, the channel is everybody's. */
TEST(flood_leaves_others_alone)
{
	peer_open(&p);
	peer_shell(&p, 1, 0, "exec yes");
	/* Nobody takes the flood: only it stops. */
	for (uint32_t id = 2; id < 20; id++) {
		static const char script[] = "echo quick";
		const char *const argv[] = { "sh", "-c", script, NULL };
		size_t got = 0;

		peer_exec(&p, id, 0, 0, 0, NULL, argv, (const char *const[]){ "PATH=/bin", NULL });
		for (;;) {
			struct frame f = peer_next(&p);

			if (stream_id(f.stream) == 1) {
				CHECK_STR(message_name(f.type), "DATA");
				continue;
			}
			got += f.type == MSG_DATA ? f.body.len : 0;
			if (f.type == MSG_EXIT)
				break;
		}
		CHECK_INT(got, 6);
		peer_tell(&p, MSG_ACK, id);
	}
	peer_stop(&p);
}

static void run_capped(const char *script, uint64_t max)
{
	const char *const argv[] = { "sh", "-c", script, NULL };
	static struct msg_exec m;

	m = (struct msg_exec){ .output_max = max };
	peer_request(&p, 1, &m, argv, (const char *const[]){ "PATH=/usr/bin:/bin", NULL });
	peer_expect_started(&p, 1);
	peer_collect(&p, 1, &o);
	CHECK_INT(o.exit.value, 0);
}

TEST_WITHIN(output_is_cut_and_counted, 60)
{
	peer_open(&p);
	run_capped("head -c 100000 /dev/zero; head -c 50 /dev/zero >&2", 1000);
	CHECK_INT(o.exit.stdout_bytes, 1000);
	CHECK_INT(o.exit.stdout_cut, 99000);
	CHECK_INT(o.exit.stderr_bytes, 50);
	CHECK_INT(o.exit.stderr_cut, 0);
	run_capped("printf 12345", 5);
	CHECK_STR(o.out[0], "12345");
	CHECK_INT(o.exit.stdout_cut, 0);
	run_capped("printf 12345; sleep 0.1; printf 6", 5);
	CHECK_STR(o.out[0], "12345");
	CHECK_INT(o.exit.stdout_cut, 1);
	run_capped("exec head -c 200000000 /dev/zero", 1);
	CHECK_INT(o.exit.stdout_bytes, 1);
	CHECK_INT(o.exit.stdout_cut, 199999999);
	peer_stop(&p);
}

/* Who is cut off is not held up, even by a peer that takes nothing. */
TEST(cut_output_needs_no_credit)
{
	const char *const argv[] = { "head", "-c", "5000000", "/dev/zero", NULL };
	static struct msg_exec m = { .output_max = STREAM_WINDOW };
	struct msg_exit end;

	peer_open(&p);
	peer_request(&p, 1, &m, argv, (const char *const[]){ "PATH=/usr/bin:/bin", NULL });
	for (;;) {
		struct frame f = peer_next(&p);

		if (f.type != MSG_EXIT)
			continue;
		CHECK(get_exit(f.body, &end));
		break;
	}
	CHECK_INT(end.stdout_bytes, STREAM_WINDOW);
	CHECK_INT(end.stdout_cut, 5000000 - STREAM_WINDOW);
	peer_stop(&p);
}

static long agent_rss(void)
{
	char path[64], line[256];
	long value = -1;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", p.pid);
	f = fopen(path, "re");
	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, "VmRSS:", 6))
			value = strtol(line + 6, NULL, 10);
	fclose(f);
	return value;
}

/* A gibibyte, and the agent does not grow by it. */
TEST_WITHIN(output_of_1_gib, 300)
{
	const uint64_t size = 1ull << 30;
	uint64_t got = 0;
	long before = 0;
	struct msg_exit m;

	peer_open(&p);
	peer_shell(&p, 1, 0, "exec head -c 1073741824 /dev/zero");
	for (;;) {
		struct frame f = peer_next(&p);

		if (f.type == MSG_EXIT) {
			CHECK(get_exit(f.body, &m));
			break;
		}
		if (got < 10000000 && got + f.body.len >= 10000000)
			before = agent_rss();
		got += f.body.len;
		if (f.body.len)
			grant(f.stream, (uint32_t)f.body.len);
	}
	CHECK(got == size && m.stdout_bytes == size);
	if (!strstr(getenv("POSTERN_AGENT") ? getenv("POSTERN_AGENT") : "", "sanitize"))
		CHECK(agent_rss() <= before + 64);
	peer_stop(&p);
}

static void feed(uint32_t id, const void *data, size_t len, unsigned flags)
{
	peer_send_flags(&p, MSG_DATA, stream_of(id, PART_STDIN), flags, bytes_of(data, len));
}

TEST(input_with_end)
{
	peer_open(&p);
	peer_shell(&p, 1, EXEC_STDIN, "cat; echo -end");
	feed(1, "one\n", 4, 0);
	feed(1, "", 0, 0);
	feed(1, "t\0o\n", 4, FRAME_EOF);
	peer_collect(&p, 1, &o);
	CHECK_INT(o.len[0], 13);
	CHECK_MEM(o.out[0], "one\nt\0o\n-end\n", 13);
	peer_stop(&p);
}

/* Sends as much as is granted, and takes no more than one answer at a time. */
TEST_WITHIN(input_of_4_mib, 60)
{
	static const uint8_t chunk[BULK_CHUNK];
	size_t total = 4 << 20, sent = 0;
	uint32_t credit = STREAM_WINDOW;
	struct msg_credit m;

	peer_open(&p);
	peer_shell(&p, 1, EXEC_STDIN, "wc -c");
	while (sent < total) {
		size_t n = total - sent < sizeof(chunk) ? total - sent : sizeof(chunk);

		if (credit < n) {
			struct frame f = peer_expect(&p, MSG_CREDIT, stream_of(1, PART_STDIN));

			CHECK(get_credit(f.body, &m));
			CHECK(credit_grant(&credit, m.bytes));
			continue;
		}
		feed(1, chunk, n, sent + n == total ? FRAME_EOF : 0);
		credit -= (uint32_t)n;
		sent += n;
	}
	for (;;) {
		struct frame f = peer_next(&p);

		if (f.type == MSG_DATA && f.body.len)
			CHECK_MEM(f.body.data, "4194304\n", 8);
		if (f.type == MSG_EXIT)
			break;
	}
	peer_stop(&p);
}

/* What nobody read is paid back all the same. */
TEST(input_that_nobody_reads)
{
	static const uint8_t chunk[PAYLOAD_MAX];
	struct msg_credit m;
	uint32_t paid = 0;
	bool ended = false;

	peer_open(&p);
	peer_shell(&p, 1, EXEC_STDIN, "sleep 0.2; echo done");
	for (int i = 0; i < 4; i++)
		feed(1, chunk, sizeof(chunk), 0);
	while (!ended || paid < STREAM_WINDOW) {
		struct frame f = peer_next(&p);

		ended = ended || f.type == MSG_EXIT;
		if (f.type == MSG_CREDIT) {
			CHECK(get_credit(f.body, &m));
			paid += m.bytes;
		}
	}
	CHECK_INT(paid, STREAM_WINDOW);
	peer_stop(&p);
}

TEST(reader_that_closed_its_input)
{
	static const uint8_t chunk[PAYLOAD_MAX];

	peer_open(&p);
	peer_shell(&p, 1, EXEC_STDIN, "exec <&-; echo closed; sleep 1000");
	peer_expect(&p, MSG_DATA, stream_of(1, PART_STDOUT));
	for (int i = 0; i < 16; i++) {
		feed(1, chunk, sizeof(chunk), 0);
		peer_expect(&p, MSG_CREDIT, stream_of(1, PART_STDIN));
	}
	peer_stop(&p);
}

TEST(more_than_granted_ends_the_session)
{
	static const uint8_t chunk[PAYLOAD_MAX];

	peer_open(&p);
	peer_shell(&p, 1, EXEC_STDIN, "sleep 1000");
	for (int i = 0; i < 6; i++)
		feed(1, chunk, sizeof(chunk), 0);
	peer_expect_greeting(&p);
	peer_stop(&p);
}

TEST(bytes_behind_the_end_end_the_session)
{
	peer_open(&p);
	peer_shell(&p, 1, EXEC_STDIN, "sleep 1000");
	feed(1, "x", 1, FRAME_EOF);
	feed(1, "x", 1, 0);
	peer_expect_greeting(&p);
	peer_stop(&p);
}

TEST(a_grant_beyond_the_window_ends_the_session)
{
	peer_open(&p);
	peer_shell(&p, 1, 0, "sleep 1000");
	grant(stream_of(1, PART_STDOUT), 1);
	peer_expect_greeting(&p);
	peer_stop(&p);
}
