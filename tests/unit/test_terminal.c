/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal is as it was before, however the process ends that made it raw. */
#include "cli/terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "test.h"

#define SOON 10000

static int master, slave;
static struct termios before;

static void make(void)
{
	master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	CHECK(slave >= 0 && tcgetattr(slave, &before) == 0);
	before.c_cc[VINTR] = 0x07;
	CHECK(tcsetattr(slave, TCSANOW, &before) == 0);
}

static bool is_raw(void)
{
	struct termios now;

	CHECK(tcgetattr(slave, &now) == 0);
	return !(now.c_lflag & (ICANON | ISIG | ECHO)) && !(now.c_oflag & OPOST);
}

static void check_as_before(void)
{
	struct termios now;

	CHECK(tcgetattr(slave, &now) == 0);
	CHECK_INT(now.c_iflag, before.c_iflag);
	CHECK_INT(now.c_oflag, before.c_oflag);
	CHECK_INT(now.c_lflag, before.c_lflag);
	CHECK_MEM(now.c_cc, before.c_cc, sizeof(now.c_cc));
	close(master);
	close(slave);
}

static int sizes;

static void on_resized(void *self)
{
	(void)self;
	sizes++;
}

static bool never(const void *arg)
{
	(void)arg;
	return false;
}

/* A process whose terminal it is makes it raw and goes on with then(). Returns how it ended. */
static int in_process(void (*then)(struct loop *loop, struct terminal *t))
{
	pid_t pid = fork();
	struct terminal t = { 0 };
	struct loop loop;
	struct err err;
	int status;

	if (pid == 0) {
		setsid();
		if (ioctl(slave, TIOCSCTTY, 0) < 0 || !loop_init(&loop, true, &err) ||
			!terminal_enter(&t, &loop, slave, on_resized, NULL, &err) || !is_raw())
			_exit(99);
		then(&loop, &t);
		terminal_leave(&t);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

static void leave(struct loop *loop, struct terminal *t)
{
	(void)loop;
	(void)t;
}

static void run_out_of_memory(struct loop *loop, struct terminal *t)
{
	(void)loop;
	(void)t;
	out_of_memory();
}

static void give_up(struct loop *loop, struct terminal *t)
{
	(void)loop;
	(void)t;
	abort();
}

static void be_told(struct loop *loop, struct terminal *t)
{
	(void)loop;
	(void)t;
	raise(SIGUSR1);
}

static void be_asked(struct loop *loop, struct terminal *t)
{
	struct err err;

	(void)t;
	raise(SIGQUIT);
	if (loop_until(loop, never, NULL, clock_in(SOON), &err) || err.code != ERR_INTERRUPTED)
		_exit(98);
}

TEST(leaving_puts_it_back)
{
	make();
	CHECK_INT(in_process(leave), 0);
	check_as_before();
}

TEST(exit_puts_it_back)
{
	make();
	CHECK_INT(WEXITSTATUS(in_process(run_out_of_memory)), 1);
	check_as_before();
}

TEST(an_abort_puts_it_back)
{
	make();
	CHECK_INT(WTERMSIG(in_process(give_up)), SIGABRT);
	check_as_before();
}

TEST(a_signal_that_nobody_takes_puts_it_back)
{
	make();
	CHECK_INT(WTERMSIG(in_process(be_told)), SIGUSR1);
	check_as_before();
}

TEST(a_signal_of_the_loop_ends_the_wait)
{
	make();
	CHECK_INT(in_process(be_asked), 0);
	check_as_before();
}

static bool resized(const void *arg)
{
	(void)arg;
	return sizes > 0;
}

static void be_resized(struct loop *loop, struct terminal *t)
{
	const struct winsize size = { .ws_row = 33, .ws_col = 101 };
	uint16_t rows, columns;
	struct err err;

	ioctl(slave, TIOCSWINSZ, &size);
	if (!loop_until(loop, resized, NULL, clock_in(SOON), &err))
		_exit(98);
	terminal_size(t, &rows, &columns);
	if (rows != 33 || columns != 101)
		_exit(97);
}

TEST(another_size_is_told)
{
	make();
	CHECK_INT(in_process(be_resized), 0);
	check_as_before();
}

/* In a session of its own nobody could let it go on: a stop passes, and the terminal is raw. */
static void be_stopped(struct loop *loop, struct terminal *t)
{
	struct err err;

	(void)t;
	raise(SIGTSTP);
	if (!loop_until(loop, resized, NULL, clock_in(SOON), &err) || !is_raw())
		_exit(98);
}

TEST(a_stop_that_cannot_be_passes)
{
	make();
	CHECK_INT(in_process(be_stopped), 0);
	check_as_before();
}

static void get_keys(struct loop *loop, struct terminal *t)
{
	int left;

	(void)loop;
	CHECK(write(master, "rm -r x\r", 8) == 8);
	terminal_leave(t);
	if (ioctl(slave, FIONREAD, &left) < 0 || left)
		_exit(98);
}

TEST(keys_for_the_guest_are_dropped)
{
	make();
	CHECK_INT(in_process(get_keys), 0);
	check_as_before();
}
