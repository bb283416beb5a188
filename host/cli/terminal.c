/* SPDX-License-Identifier: Apache-2.0 */
/* Our terminal while a guest's program has it: raw, and as it was on every way out. */
#include "terminal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"

/* For handlers, which have no argument. */
static struct {
	int fd;
	struct termios before;
	volatile sig_atomic_t raw;
} ours;

/* Only calls that a signal handler may make. */
static void restore(void)
{
	sigset_t block, mask;
	pid_t foreground;

	if (!ours.raw)
		return;
	ours.raw = false;
	foreground = tcgetpgrp(ours.fd); /* -1: it does not control us */
	if (foreground >= 0 && foreground != getpgrp())
		return;
	sigemptyset(&block);
	sigaddset(&block, SIGTTOU);
	sigprocmask(SIG_BLOCK, &block, &mask);
	tcflush(ours.fd, TCIFLUSH);
	/* Not TCSADRAIN: a terminal that takes no output must not keep us. */
	tcsetattr(ours.fd, TCSANOW, &ours.before);
	sigprocmask(SIG_SETMASK, &mask, NULL);
}

/* Its action is the default one again. */
static void on_fatal(int number)
{
	restore();
	raise(number);
}

static bool ends_us(int number)
{
	struct sigaction now;

	switch (number) {
	case SIGCHLD:
	case SIGCONT:
	case SIGURG:
	case SIGWINCH:
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU:
		return false;
	default:
		return sigaction(number, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
		       now.sa_handler == SIG_DFL;
	}
}

static void guard_all_ends(void)
{
	struct sigaction act = { .sa_handler = on_fatal, .sa_flags = (int)SA_RESETHAND };
	static bool registered;

	for (int i = 1; i <= SIGRTMAX; i++)
		if (ends_us(i))
			(void)sigaction(i, &act, NULL);
	if (!registered)
		(void)atexit(restore);
	registered = true;
}

static bool make_raw(int fd, struct err *err)
{
	struct termios raw;

	/* After SIGCONT it may be raw already, or a shell may have changed it: ours counts. */
	if (!ours.raw && tcgetattr(fd, &ours.before) < 0)
		return err_errno(err, "reading the terminal's settings");
	ours.fd = fd;
	raw = ours.before;
	cfmakeraw(&raw);
	ours.raw = true;
	/* In the background this stops us until we are in front. */
	return tcsetattr(fd, TCSANOW, &raw) == 0 || err_errno(err, "setting the terminal");
}

/* As SIGTSTP would have. Returns when we go on, or at once where nobody could let us. */
static void stop(void)
{
	sigset_t set;

	restore();
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static short wants(const void *self)
{
	(void)self;
	return POLLIN;
}

static void ready(void *self, short events)
{
	struct terminal *t = self;
	struct signalfd_siginfo info;
	struct err err;

	(void)events;
	if (read(t->source.fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGTSTP)
		stop();
	/* A terminal that is gone shows itself at the next read. */
	if (info.ssi_signo != SIGWINCH)
		(void)make_raw(t->fd, &err);
	t->resized(t->self);
}

bool terminal_enter(struct terminal *t, struct loop *loop, int fd, void (*resized)(void *self),
	void *self, struct err *err)
{
	sigset_t set;
	int signals;

	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	sigaddset(&set, SIGTSTP);
	sigaddset(&set, SIGCONT);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0)
		return err_errno(err, "signalfd");
	*t = (struct terminal){ .fd = fd, .loop = loop, .resized = resized, .self = self };
	t->source = (struct source){ .fd = signals, .wants = wants, .ready = ready, .self = t };
	sigprocmask(SIG_BLOCK, &set, &t->mask);
	loop_add(loop, &t->source);
	guard_all_ends();
	return make_raw(fd, err);
}

void terminal_leave(struct terminal *t)
{
	restore();
	if (!t->loop)
		return;
	loop_remove(t->loop, &t->source);
	fd_close(&t->source.fd);
	t->loop = NULL;
	sigprocmask(SIG_SETMASK, &t->mask, NULL);
}

void terminal_size(const struct terminal *t, uint16_t *ret_rows, uint16_t *ret_columns)
{
	struct winsize size = { 0 };

	(void)ioctl(t->fd, TIOCGWINSZ, &size);
	*ret_rows = size.ws_row;
	*ret_columns = size.ws_col;
}
