/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: decoding gives back what was encoded, and nothing that is not whole decodes. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "credit.h"
#include "messages.h"

/* The result must not decode when it is one byte shorter or longer. */
#define CHECK_WHOLE(name, wire, len)                                                               \
	do {                                                                                       \
		static struct msg_##name again;                                                    \
		CHECK(get_##name(bytes_of(wire, len), &again));                                    \
		for (size_t cut = 0; cut < (len); cut++)                                           \
			CHECK(!get_##name(bytes_of(wire, cut), &again));                           \
		CHECK(!get_##name(bytes_of(wire, (len) + 1), &again));                             \
	} while (0)

static uint8_t wire[4096];

static size_t written(const struct writer *w)
{
	CHECK(!w->bad);
	return (size_t)(w->at - wire);
}

TEST(hello)
{
	struct msg_hello m = { .generation = 3, .build = 77, .nonce = "abcdefghijklmno" }, got;
	struct writer w = writer_of(wire, sizeof(wire));

	put_hello(&w, &m);
	CHECK_INT(written(&w), HELLO_BODY);
	CHECK(get_hello(bytes_of(wire, HELLO_BODY), &got));
	CHECK_MEM(&got.nonce, &m.nonce, 16);
	CHECK_INT(got.build, 77);
	CHECK_WHOLE(hello, wire, HELLO_BODY);
	wire[9] ^= 1;
	CHECK(!get_hello(bytes_of(wire, HELLO_BODY), &got));
}

TEST(exec_keeps_every_string)
{
	static struct msg_exec m, got;
	const char *argv[] = { "sh", "", "it's \"quoted\"\n", "\xff\xfe" };
	struct writer w = writer_of(wire, sizeof(wire));
	size_t len;

	m = (struct msg_exec){ .flags = EXEC_STDIN | EXEC_PTY,
		.rows = 24,
		.columns = 80,
		.deadline_ms = 5,
		.output_max = 1ull << 33,
		.user = bytes_str("nobody"),
		.dir = bytes_str("/root") };
	for (m.argc = 0; m.argc < 4; m.argc++)
		m.argv[m.argc] = bytes_str(argv[m.argc]);
	m.env[m.envc++] = bytes_str("A=b c");
	put_exec(&w, &m);
	len = written(&w);
	CHECK(get_exec(bytes_of(wire, len), &got));
	CHECK_INT(got.columns, 80);
	CHECK_INT(got.output_max, 1ull << 33);
	CHECK_INT(got.user.len, 6);
	CHECK_INT(got.argc, 4);
	CHECK_INT(got.envc, 1);
	for (int i = 0; i < 4; i++) {
		CHECK_INT(got.argv[i].len, strlen(argv[i]));
		CHECK_MEM(got.argv[i].data, argv[i], got.argv[i].len);
	}
	CHECK_WHOLE(exec, wire, len);
}

TEST(exec_refuses_what_no_system_takes)
{
	static struct msg_exec m, got;
	struct writer w = writer_of(wire, sizeof(wire));

	m.argc = 1;
	m.argv[0] = bytes_of("a\0b", 3);
	put_exec(&w, &m);
	CHECK(!get_exec(bytes_of(wire, written(&w)), &got));

	w = writer_of(wire, sizeof(wire));
	m.argc = 0;
	put_exec(&w, &m);
	CHECK(!get_exec(bytes_of(wire, written(&w)), &got));

	w = writer_of(wire, sizeof(wire)); /* a count with nothing behind it */
	put_raw(&w, (const uint8_t[22]){ 0 }, 22);
	put_bytes(&w, bytes_str(""));
	put_bytes(&w, bytes_str(""));
	put_u16(&w, ARGS_MAX + 1);
	CHECK(!get_exec(bytes_of(wire, written(&w)), &got));
}

TEST(small_messages_are_whole_or_nothing)
{
	struct writer w = writer_of(wire, sizeof(wire));

	put_exit(&w, &(struct msg_exit){ .flags = EXIT_SIGNALLED,
			     .value = 9,
			     .left_behind = 3,
			     .listed = 1,
			     .left = { { 7, bytes_str("sleep") } } });
	CHECK_WHOLE(exit, wire, written(&w));
	w = writer_of(wire, sizeof(wire));
	put_failed(&w, &(struct msg_failed){ FAIL_NOT_FOUND, 2, bytes_str("no such file") });
	CHECK_WHOLE(failed, wire, written(&w));
	w = writer_of(wire, sizeof(wire));
	put_put(&w, &(struct msg_put){ TREE_AGENT_ROOT, bytes_str("/checks/x") });
	CHECK_WHOLE(put, wire, written(&w));
	w = writer_of(wire, sizeof(wire));
	put_heal(&w, &(struct msg_heal){ 1, bytes_str("seed") });
	CHECK_WHOLE(heal, wire, written(&w));
	w = writer_of(wire, sizeof(wire));
	put_credit(&w, &(struct msg_credit){ 1 });
	CHECK_WHOLE(credit, wire, written(&w));
}

TEST(values_out_of_range_do_not_decode)
{
	struct writer w = writer_of(wire, sizeof(wire));
	struct msg_credit credit;
	struct msg_failed failed;
	struct msg_exit ended;
	struct msg_put put;

	put_credit(&w, &(struct msg_credit){ STREAM_WINDOW + 1 });
	CHECK(!get_credit(bytes_of(wire, written(&w)), &credit));
	w = writer_of(wire, sizeof(wire));
	put_exit(&w, &(struct msg_exit){ .value = 256 });
	CHECK(!get_exit(bytes_of(wire, written(&w)), &ended));
	w = writer_of(wire, sizeof(wire));
	put_failed(&w, &(struct msg_failed){ 99, 0, bytes_str("") });
	CHECK(!get_failed(bytes_of(wire, written(&w)), &failed));
	w = writer_of(wire, sizeof(wire));
	put_put(&w, &(struct msg_put){ 0, bytes_str("relative") });
	CHECK(!get_put(bytes_of(wire, written(&w)), &put));
}

TEST(the_table_says_who_may_speak)
{
	CHECK(message_legal(MSG_EXEC, FROM_HOST, OPEN));
	CHECK(!message_legal(MSG_EXEC, FROM_GUEST, OPEN));
	CHECK(!message_legal(MSG_EXEC, FROM_HOST, GREETING));
	CHECK(!message_legal(MSG_EXEC, FROM_HOST, FROZEN));
	CHECK(message_legal(MSG_HELLO, FROM_GUEST, GREETING));
	CHECK(!message_legal(0, FROM_HOST, OPEN));
	CHECK(!message_legal(65535, FROM_HOST, OPEN));
	CHECK_STR(message_name(MSG_DONE), "DONE");
	CHECK_STR(message_name(999), "unknown");
}

TEST(credit_never_exceeds_a_window)
{
	struct credit c = credit_new();
	uint32_t to_send = STREAM_WINDOW;

	CHECK(credit_spend(&c, STREAM_WINDOW));
	CHECK(!credit_spend(&c, 1));
	CHECK_INT(credit_consumed(&c, 100), 0); /* not worth a message yet */
	CHECK_INT(credit_consumed(&c, STREAM_WINDOW - 100), STREAM_WINDOW);
	CHECK(credit_spend(&c, STREAM_WINDOW));

	CHECK(!credit_grant(&to_send, 1));
	to_send -= 10;
	CHECK(credit_grant(&to_send, 10));
	CHECK_INT(to_send, STREAM_WINDOW);
}
