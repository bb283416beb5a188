/* SPDX-License-Identifier: Apache-2.0 */
/* Starting programs: exact arguments, and exact reasons why not. */
#include "peer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct peer p;
static struct outcome o;
static const char *const env[] = { "PATH=/usr/bin:/bin", NULL };

static void run(const char *dir, const char *const *argv, const char *const *environment)
{
	peer_exec(&p, 1, 0, 0, 0, dir, argv, environment);
	peer_expect(&p, MSG_STARTED, stream_of(1, PART_CONTROL));
	peer_collect(&p, 1, &o);
}

TEST(arguments_arrive_exactly)
{
	const char *const argv[] = { "printf", "[%s]", "", "a b", "it's \"quoted\"", "line\nbreak",
		"$HOME `id` * \\", "gr\xc3\xbc\xc3\x9f \xff", "-n", NULL };

	peer_open(&p);
	run(NULL, argv, env);
	CHECK_STR(o.out[0], "[][a b][it's \"quoted\"][line\nbreak][$HOME `id` * \\]"
			    "[gr\xc3\xbc\xc3\x9f \xff][-n]");
	peer_stop(&p);
}

TEST(environment_arrives_exactly)
{
	const char *const argv[] = { "/usr/bin/env", "-0", NULL };
	const char *const odd[] = { "A=1", "EMPTY=", "LINE=a\nb", "Q='\"", NULL };
	static const char want[] = "A=1\0EMPTY=\0LINE=a\nb\0Q='\"";

	peer_open(&p);
	run(NULL, argv, odd);
	CHECK_INT(o.len[0], sizeof(want));
	CHECK_MEM(o.out[0], want, sizeof(want));
	run(NULL, argv, NULL);
	CHECK_INT(o.len[0], 0);
	peer_stop(&p);
}

TEST(directory_is_entered)
{
	const char *const argv[] = { "pwd", NULL };

	peer_open(&p);
	run("/usr/lib", argv, env);
	CHECK_STR(o.out[0], "/usr/lib\n");
	run(NULL, argv, env);
	CHECK_STR(o.out[0], "/\n");
	peer_stop(&p);
}

TEST(path_of_the_environment_is_searched)
{
	const char *const found[] = { "PATH=/nowhere::/usr/bin", NULL };
	const char *const missing[] = { "PATH=/nowhere:/etc", NULL };
	const char *const argv[] = { "true", NULL };

	peer_open(&p);
	run(NULL, argv, found);
	CHECK_INT(o.exit.value, 0);
	run(NULL, argv, NULL);
	CHECK_INT(o.exit.value, 0);
	peer_exec(&p, 1, 0, 0, 0, NULL, argv, missing);
	peer_expect_failed(&p, 1, FAIL_NOT_FOUND);
	peer_stop(&p);
}

static void fails(const char *dir, const char *program, enum fail_kind kind)
{
	const char *const argv[] = { program, NULL };

	peer_exec(&p, 1, 0, 0, 0, dir, argv, env);
	peer_expect_failed(&p, 1, kind);
}

static void make_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	CHECK(fchmod(fd, mode) == 0);
	close(fd);
}

TEST(reasons_why_not)
{
	char dir[] = "/tmp/pair-XXXXXX", odd[64], bare[64], plain[64];

	CHECK(mkdtemp(dir));
	(void)snprintf(odd, sizeof(odd), "%s/odd", dir);
	(void)snprintf(bare, sizeof(bare), "%s/bare", dir);
	(void)snprintf(plain, sizeof(plain), "%s/plain", dir);
	make_file(odd, "#!/no/such/interpreter\n", 0755);
	make_file(bare, "echo no line for the kernel\n", 0755);
	make_file(plain, "#!/bin/sh\n", 0644);
	peer_open(&p);
	fails(NULL, "no-such-program", FAIL_NOT_FOUND);
	fails(NULL, "/no/such/program", FAIL_NOT_FOUND);
	fails(NULL, "/etc/passwd/x", FAIL_NOT_FOUND);
	fails(NULL, "/etc", FAIL_NOT_EXECUTABLE);
	fails(NULL, plain, FAIL_NOT_EXECUTABLE);
	fails(NULL, bare, FAIL_NOT_EXECUTABLE);
	fails(NULL, odd, FAIL_NOT_EXECUTABLE);
	fails("/no/such/directory", "true", FAIL_DIRECTORY);
	fails("/etc/passwd", "true", FAIL_DIRECTORY);
	peer_expect_quiet(&p);
	peer_stop(&p);
	unlink(odd);
	unlink(bare);
	unlink(plain);
	rmdir(dir);
}

TEST(exit_codes)
{
	peer_open(&p);
	peer_check_shell(&p, 1, "exit 0", 0, "");
	peer_check_shell(&p, 2, "exit 1", 1, "");
	peer_check_shell(&p, 3, "exit 255", 255, "");
	peer_stop(&p);
}

TEST(ended_by_signals)
{
	peer_open(&p);
	peer_shell(&p, 1, 0, "kill -SEGV $$");
	peer_collect(&p, 1, &o);
	CHECK_INT(o.exit.flags, EXIT_SIGNALLED);
	CHECK_INT(o.exit.value, 11);
	peer_shell(&p, 1, 0, "kill -KILL $$");
	peer_collect(&p, 1, &o);
	CHECK_INT(o.exit.flags, EXIT_SIGNALLED);
	CHECK_INT(o.exit.value, 9);
	peer_stop(&p);
}

TEST(child_has_nothing_of_ours)
{
	peer_open(&p);
	/* The shell opens its directory listing as one more. */
	peer_check_shell(&p, 1, "exec ls /proc/self/fd", 0, "0\n1\n2\n3\n");
	peer_check_shell(&p, 2, "readlink /proc/self/fd/0", 0, "/dev/null\n");
	peer_check_shell(&p, 3, "umask", 0, "0022\n");
	peer_check_shell(&p, 4, "grep -E '^Sig(Blk|Ign):' /proc/self/status | cut -f2 | sort -u", 0,
		"0000000000000000\n");
	peer_check_shell(
		&p, 5, "ps -o sid= -p $$ | tr -d ' ' | grep -qx $$ && ulimit -Sn", 0, "1024\n");
	peer_stop(&p);
}

TEST(the_same_id_runs_once)
{
	const char *const argv[] = { "sh", "-c", "echo once; cat", NULL };
	const uint32_t control = stream_of(7, PART_CONTROL);

	peer_open(&p);
	peer_exec(&p, 7, EXEC_STDIN, 0, 0, NULL, argv, env);
	peer_expect(&p, MSG_STARTED, control);
	CHECK_INT(peer_expect(&p, MSG_DATA, stream_of(7, PART_STDOUT)).body.len, 5);
	peer_exec(&p, 7, EXEC_STDIN, 0, 0, NULL, argv, env);
	peer_expect(&p, MSG_STARTED, control);
	peer_send_flags(&p, MSG_DATA, stream_of(7, PART_STDIN), FRAME_EOF, bytes_of(NULL, 0));
	while (peer_next(&p).type != MSG_EXIT)
		;
	for (int i = 0; i < 3; i++) {
		peer_exec(&p, 7, EXEC_STDIN, 0, 0, NULL, argv, env);
		peer_expect(&p, MSG_EXIT, control);
	}
	peer_send(&p, MSG_ACK, control, bytes_of(NULL, 0));
	peer_exec(&p, 7, 0, 0, 0, NULL, argv, env);
	peer_expect(&p, MSG_STARTED, control);
	peer_collect(&p, 7, &o);
	CHECK_STR(o.out[0], "once\n");
	peer_stop(&p);
}

TEST(table_full)
{
	const char *const argv[] = { "sleep", "1000", NULL };

	peer_open(&p);
	for (uint32_t id = 1; id <= OPERATIONS_MAX; id++) {
		peer_exec(&p, id, 0, 0, 100, NULL, argv, env);
		peer_expect(&p, MSG_STARTED, stream_of(id, PART_CONTROL));
	}
	peer_exec(&p, 100, 0, 0, 0, NULL, argv, env);
	peer_expect_failed(&p, 100, FAIL_BUSY);
	peer_send(&p, MSG_CANCEL, stream_of(3, PART_CONTROL), bytes_of(NULL, 0));
	peer_collect(&p, 3, &o);
	CHECK_INT(o.exit.flags, EXIT_CANCELLED | EXIT_SIGNALLED);
	CHECK_INT(o.exit.value, 15);
	peer_exec(&p, 100, 0, 0, 0, NULL, argv, env);
	peer_expect(&p, MSG_STARTED, stream_of(100, PART_CONTROL));
	peer_stop(&p);
}

TEST(deadline_of_a_silent_command)
{
	const char *const argv[] = { "sleep", "1000", NULL };

	peer_open(&p);
	peer_exec(&p, 1, 0, 50, 1000, NULL, argv, env);
	peer_expect(&p, MSG_STARTED, stream_of(1, PART_CONTROL));
	peer_collect(&p, 1, &o);
	CHECK_INT(o.exit.flags, EXIT_TIMED_OUT | EXIT_SIGNALLED);
	CHECK_INT(o.exit.value, 15);
	CHECK_INT(o.exit.left_behind, 0);
	peer_stop(&p);
}

TEST(kill_after_grace)
{
	struct msg_exit m;

	peer_open(&p);
	peer_shell(&p, 1, 0,
		"trap '' TERM; (echo up; while :; do sleep 1; done) & while :; do sleep 1; done");
	CHECK_INT(peer_expect(&p, MSG_DATA, stream_of(1, PART_STDOUT)).body.len, 3);
	peer_tell(&p, MSG_CANCEL, 1);
	for (;;) {
		struct frame f = peer_next(&p);

		if (f.type != MSG_EXIT)
			continue;
		CHECK(get_exit(f.body, &m));
		break;
	}
	CHECK_INT(m.flags, EXIT_CANCELLED | EXIT_SIGNALLED);
	CHECK_INT(m.value, 9);
	CHECK_INT(m.left_behind, 0);
	peer_stop(&p);
}

/* The shell obeys TERM, its child takes its time: it is still waited for. */
TEST(grace_is_for_the_whole_group)
{
	peer_open(&p);
	peer_shell(&p, 1, 0,
		"(trap 'echo cleaned; exit' TERM; echo up; while :; do sleep 0.05; done) & wait");
	CHECK_INT(peer_expect(&p, MSG_DATA, stream_of(1, PART_STDOUT)).body.len, 3);
	PEER_SEND(&p, CREDIT, credit, stream_of(1, PART_STDOUT), .bytes = 3);
	peer_send(&p, MSG_CANCEL, stream_of(1, PART_CONTROL), bytes_of(NULL, 0));
	for (;;) {
		struct frame f = peer_next(&p);
		struct msg_exit m;

		if (f.type != MSG_EXIT)
			continue;
		CHECK(get_exit(f.body, &m));
		CHECK(m.flags & EXIT_CANCELLED);
		CHECK_INT(m.left_behind, 0);
		break;
	}
	peer_stop(&p);
}

TEST(cancel_of_what_is_over_or_unknown)
{
	peer_open(&p);
	peer_check_shell(&p, 1, "true", 0, "");
	peer_send(&p, MSG_CANCEL, stream_of(1, PART_CONTROL), bytes_of(NULL, 0));
	peer_send(&p, MSG_CANCEL, stream_of(9, PART_CONTROL), bytes_of(NULL, 0));
	peer_expect_quiet(&p);
	peer_stop(&p);
}

TEST(daemon_holds_stdout)
{
	peer_open(&p);
	peer_shell(&p, 1, 0, "sleep 1000 & echo started");
	peer_collect(&p, 1, &o);
	CHECK_STR(o.out[0], "started\n");
	CHECK_INT(o.exit.flags, 0);
	CHECK_INT(o.exit.left_behind, 1);
	peer_stop(&p);
}

static bool is_listed(const char *name)
{
	for (uint16_t i = 0; i < o.exit.listed; i++) {
		const struct bytes is = o.exit.left[i].name;

		if (is.len == strlen(name) && !memcmp(is.data, name, is.len))
			return o.exit.left[i].pid > 1;
	}
	return false;
}

TEST(left_behind_by_name)
{
	peer_open(&p);
	peer_shell(&p, 1, 0,
		"sleep 1000 & (exec tail -f /dev/null) & while ! pgrep -x tail; do :; done "
		">/dev/null");
	peer_collect(&p, 1, &o);
	CHECK_INT(o.exit.left_behind, 2);
	CHECK_INT(o.exit.listed, 2);
	CHECK(is_listed("sleep") && is_listed("tail"));
	peer_shell(&p, 2, 0, "for i in $(seq 20); do sleep 1000 & done");
	peer_collect(&p, 2, &o);
	CHECK_INT(o.exit.left_behind, 20);
	CHECK_INT(o.exit.listed, LEFT_MAX);
	peer_stop(&p);
}

static void send_signal(uint32_t id, uint16_t number)
{
	PEER_SEND(&p, SIGNAL, signal, stream_of(id, PART_CONTROL), .number = number);
}

/* Takes output of that many bytes. */
static void wait_output(uint32_t id, size_t len)
{
	size_t got = 0;

	while (got < len) {
		struct frame f = peer_expect(&p, MSG_DATA, stream_of(id, PART_STDOUT));

		PEER_SEND(&p, CREDIT, credit, f.stream, .bytes = (uint32_t)f.body.len);
		got += f.body.len;
	}
	CHECK_INT(got, len);
}

TEST(signals_reach_the_whole_group)
{
	struct msg_exit m;

	peer_open(&p);
	/* The shell tells on stderr of a sleep that the signal ended. */
	peer_shell(&p, 1, 0,
		"(exec 2>/dev/null; trap 'echo two; exit' USR1; echo up; while :; do sleep 0.02; "
		"done) & "
		"trap 'wait; exit 5' USR1; echo up; wait; while :; do sleep 0.02; done");
	wait_output(1, 6);
	send_signal(1, 10);
	wait_output(1, 4);
	for (;;) {
		struct frame f = peer_next(&p);

		if (f.type != MSG_EXIT)
			continue;
		CHECK(get_exit(f.body, &m));
		CHECK_INT(m.value, 5);
		CHECK_INT(m.flags, 0);
		break;
	}
	/* It is over, or was never there. */
	send_signal(1, 9);
	send_signal(77, 9);
	peer_shell(&p, 2, 0, "exec sleep 1000");
	send_signal(2, 64);
	peer_collect(&p, 2, &o);
	CHECK_INT(o.exit.flags, EXIT_SIGNALLED);
	CHECK_INT(o.exit.value, 64);
	peer_stop(&p);
}

/* A minute without a byte, beside another command that goes on. */
TEST_WITHIN(silent_for_a_minute, 120)
{
	const char *const argv[] = { "sh", "-c", "sleep 60; echo awake", NULL };

	peer_open(&p);
	peer_exec(&p, 1, 0, 0, 0, NULL, argv, env);
	peer_expect_started(&p, 1);
	peer_check_shell(&p, 2, "echo meanwhile", 0, "meanwhile\n");
	peer_collect(&p, 1, &o);
	CHECK_STR(o.out[0], "awake\n");
	peer_stop(&p);
}

static long number_of(const char *key)
{
	char path[64], line[256];
	long value = -1;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", p.pid);
	f = fopen(path, "re");
	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			value = strtol(line + strlen(key), NULL, 10);
	fclose(f);
	return value;
}

static int agent_fds(void)
{
	char command[64];
	int n = 0;
	FILE *f;

	(void)snprintf(command, sizeof(command), "ls /proc/%d/fd | wc -l", p.pid);
	f = popen(command, "re");
	CHECK(f && fscanf(f, "%d", &n) == 1);
	pclose(f);
	return n;
}

TEST_WITHIN(many_short_commands_leave_nothing, 900)
{
	/* The agent itself is the smallest program at hand: it says how it is used, and ends. */
	const char *agent = getenv("POSTERN_AGENT");
	const char *const argv[] = { agent ? agent : "build/postern-agent", NULL };
	const bool sanitized = strstr(argv[0], "sanitize");
	const uint32_t many = sanitized ? 1000 : 10000;
	long before = 0;
	int fds = 0;

	peer_open(&p);
	for (uint32_t id = 1; id <= many; id++) {
		/* The first ones touch memory for the first time. */
		if (id == 200) {
			before = number_of("VmRSS:");
			fds = agent_fds();
		}
		peer_exec(&p, id, 0, 0, 0, NULL, argv, env);
		peer_expect(&p, MSG_STARTED, stream_of(id, PART_CONTROL));
		peer_collect(&p, id, &o);
		CHECK_INT(o.exit.value, 2);
		CHECK_INT(o.exit.left_behind, 0);
	}
	CHECK_INT(agent_fds(), fds);
	if (!sanitized)
		CHECK(number_of("VmRSS:") <= before + 16);
	peer_stop(&p);
}
