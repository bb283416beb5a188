/* SPDX-License-Identifier: Apache-2.0 */
/* Commands on a terminal. */
#include "peer.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct peer p;
static struct outcome o;
static const char *const env[] = { "PATH=/usr/bin:/bin", "TERM=dumb", NULL };

static void begin_as(const char *user, const char *script)
{
	static struct msg_exec m;
	const char *const argv[] = { "sh", "-c", script, NULL };

	m = (struct msg_exec){
		.flags = EXEC_PTY | EXEC_STDIN,
		.rows = 24,
		.columns = 80,
		.grace_ms = 1000,
		.user = bytes_str(user),
	};
	peer_request(&p, 1, &m, argv, env);
}

static void begin(const char *script)
{
	begin_as("", script);
	peer_expect_started(&p, 1);
}

static void check_terminal(const char *script, const char *out)
{
	begin(script);
	peer_collect(&p, 1, &o);
	CHECK_STR(o.out[0], out);
	CHECK_INT(o.len[1], 0);
	CHECK_INT(o.exit.value, 0);
}

/* Takes output until this line has come. */
static void wait_line(const char *line)
{
	char all[4096] = "";
	size_t len = 0;

	while (!strstr(all, line)) {
		struct frame f = peer_expect(&p, MSG_DATA, stream_of(1, PART_STDOUT));

		CHECK(len + f.body.len < sizeof(all));
		memcpy(all + len, f.body.data, f.body.len);
		len += f.body.len;
		all[len] = '\0';
		if (f.body.len)
			PEER_SEND(&p, CREDIT, credit, f.stream, .bytes = (uint32_t)f.body.len);
	}
}

static uint64_t exit_of(uint16_t *ret_flags)
{
	struct msg_exit m;
	struct frame f;

	do {
		f = peer_next(&p);
	} while (f.type != MSG_EXIT);
	CHECK(get_exit(f.body, &m));
	*ret_flags = m.flags;
	return m.value;
}

TEST(is_a_terminal_with_a_name)
{
	peer_open(&p);
	check_terminal("test -t 0 && test -t 1 && test -t 2 && echo yes", "yes\r\n");
	check_terminal("test -c \"$(tty)\" && echo $(tty) | cut -d/ -f1-3", "/dev/pts\r\n");
	check_terminal("stty size; echo err >&2", "24 80\r\nerr\r\n");
	check_terminal("ps -o tty= -p $$ | grep -q pts/ && echo led </dev/tty", "led\r\n");
	peer_stop(&p);
}

TEST(nothing_of_ours_on_a_terminal)
{
	peer_open(&p);
	check_terminal("exec ls /proc/self/fd", "0  1  2  3\r\n");
	peer_stop(&p);
}

TEST(resized_while_it_runs)
{
	const char *script =
		"trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.02; done";

	peer_open(&p);
	begin(script);
	wait_line("ready");
	PEER_SEND(&p, RESIZE, resize, stream_of(1, PART_CONTROL), .rows = 50, .columns = 132);
	wait_line("50 132");
	/* Before it has begun. */
	while (peer_next(&p).type != MSG_EXIT)
		;
	peer_tell(&p, MSG_ACK, 1);
	begin_as("", "sleep 0.1; stty size");
	PEER_SEND(&p, RESIZE, resize, stream_of(1, PART_CONTROL), .rows = 3, .columns = 4);
	peer_expect_started(&p, 1);
	peer_collect(&p, 1, &o);
	CHECK_STR(o.out[0], "3 4\r\n");
	peer_stop(&p);
}

TEST(control_c_interrupts)
{
	uint16_t flags;

	peer_open(&p);
	begin("echo ready; exec cat");
	wait_line("ready");
	peer_feed(&p, 1, "\x03", 1, 0);
	CHECK_INT(exit_of(&flags), 2);
	CHECK_INT(flags, EXIT_SIGNALLED);
	peer_stop(&p);
}

TEST(end_of_input_is_typed)
{
	peer_open(&p);
	begin("cat; echo end");
	peer_feed(&p, 1, "x\n", 2, FRAME_EOF);
	peer_collect(&p, 1, &o);
	CHECK_STR(o.out[0], "x\r\nx\r\nend\r\n");
	peer_stop(&p);
}

/* Before the terminal is there. */
TEST(typed_ahead)
{
	peer_open(&p);
	begin_as("", "read x; echo got $x");
	peer_feed(&p, 1, "early\n", 6, 0);
	peer_expect_started(&p, 1);
	peer_collect(&p, 1, &o);
	CHECK_STR(o.out[0], "early\r\ngot early\r\n");
	peer_stop(&p);
}

TEST(much_output_arrives_whole)
{
	size_t len = 0;

	peer_open(&p);
	begin("exec seq 1 20000");
	for (;;) {
		struct frame f = peer_next(&p);

		if (f.type == MSG_EXIT)
			break;
		len += f.body.len;
		if (f.body.len)
			PEER_SEND(&p, CREDIT, credit, f.stream, .bytes = (uint32_t)f.body.len);
	}
	/* 108,894 bytes, and a carriage return for each line. */
	CHECK_INT(len, 128894);
	peer_stop(&p);
}

/* The last words of a program are in the terminal when it is gone. */
TEST_WITHIN(last_words_arrive, 60)
{
	peer_open(&p);
	for (int i = 0; i < 200; i++)
		check_terminal("printf last", "last");
	peer_stop(&p);
}

TEST(hung_up_when_it_ends)
{
	peer_open(&p);
	begin("(trap '' HUP; exec sleep 1000) & (trap '' HUP; cat; exec sleep 1001) & "
	      "(sleep 1002) & sleep 0.2; echo bye");
	peer_collect(&p, 1, &o);
	CHECK_STR(o.out[0], "bye\r\n");
	CHECK(o.exit.left_behind >= 2);
	peer_stop(&p);
}

TEST(writers_left_behind_do_not_hold_it)
{
	peer_open(&p);
	begin("(trap '' HUP; exec yes) & echo bye");
	for (;;) {
		struct frame f = peer_next(&p);

		if (f.type == MSG_EXIT)
			break;
		if (f.body.len)
			PEER_SEND(&p, CREDIT, credit, f.stream, .bytes = (uint32_t)f.body.len);
	}
	peer_expect_quiet(&p);
	peer_stop(&p);
}

TEST(owned_by_its_user)
{
	if (geteuid() != 0)
		SKIP("only root becomes somebody else");
	peer_open(&p);
	begin_as("nobody", "test -O \"$(tty)\" && echo mine >\"$(tty)\"; id -un");
	peer_expect_started(&p, 1);
	peer_collect(&p, 1, &o);
	CHECK_STR(o.out[0], "mine\r\nnobody\r\n");
	peer_stop(&p);
}

TEST(cancelled_on_a_terminal)
{
	uint16_t flags;

	peer_open(&p);
	begin("trap '' HUP; echo ready; exec cat");
	wait_line("ready");
	peer_tell(&p, MSG_CANCEL, 1);
	CHECK_INT(exit_of(&flags), 15);
	CHECK_INT(flags, EXIT_SIGNALLED | EXIT_CANCELLED);
	peer_stop(&p);
}

TEST(attached_again_to_a_terminal)
{
	peer_open(&p);
	begin("echo ready; read x; echo got $x");
	wait_line("ready");
	peer_attach(&p);
	CHECK_INT(peer_query(&p, 1).state, STATUS_RUNS);
	peer_feed(&p, 1, "back\n", 5, 0);
	wait_line("got back");
	while (peer_next(&p).type != MSG_EXIT)
		;
	peer_stop(&p);
}

TEST(resize_without_a_terminal_is_ignored)
{
	peer_open(&p);
	peer_shell(&p, 1, EXEC_STDIN, "exec cat");
	PEER_SEND(&p, RESIZE, resize, stream_of(1, PART_CONTROL), .rows = 3, .columns = 4);
	PEER_SEND(&p, RESIZE, resize, stream_of(9, PART_CONTROL), .rows = 3, .columns = 4);
	peer_expect_quiet(&p);
	peer_stop(&p);
}

TEST(no_program_no_terminal)
{
	const char *const argv[] = { "no-such-program", NULL };
	static struct msg_exec m = { .flags = EXEC_PTY, .rows = 1, .columns = 1 };

	peer_open(&p);
	for (int i = 0; i < 50; i++) {
		peer_request(&p, 1, &m, argv, env);
		peer_expect_failed(&p, 1, FAIL_NOT_FOUND);
	}
	peer_expect_quiet(&p);
	peer_stop(&p);
}
