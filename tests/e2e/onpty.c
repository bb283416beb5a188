/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: onpty PROGRAM [ARG...] <STEPS
 *
 * Runs a program on a terminal of its own, as a person at a shell with job control would, and does
 * the steps, one a line. Ends with 0 when all went as written and the terminal is as it was before
 * the program; else says on stderr which step failed, why, and what the terminal showed last.
 *
 *   expect TEXT      until the terminal shows it, after what the last expect found
 *   send TEXT        type it
 *   size ROWS COLUMNS
 *   signal NUMBER    to the program
 *   run COMMAND      a shell command, with the program's process id in $PID; must end with 0
 *   raw              until the terminal passes every key on
 *   stopped          until the program is stopped; the terminal must be as before
 *   stall            the terminal takes no output from here on
 *   hang-up          it is gone, and with it the program's SIGHUP
 *   ends WITH        until the program ends: "exit N" or "signal N"
 *
 * In TEXT, \r \n \\ and \xHH stand for bytes. No step takes longer than five minutes.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/xalloc.h"

#define STEP_MS 300000
#define KEPT	65536 /* of what the terminal showed */

struct onpty {
	int master, slave, children; /* the last a signalfd */
	bool stalled;
	struct termios before;
	pid_t pid;
	bool ended, stopped;
	int status;
	struct buf shown;
	size_t found; /* what expect has passed */
	int64_t deadline;
};

static _Noreturn void fail(const struct onpty *p, const char *what, const char *step)
{
	size_t tail = p->shown.len > 2000 ? p->shown.len - 2000 : 0;

	fprintf(stderr, "onpty: %s: %s\nonpty: the terminal showed:\n", step, what);
	if (p->shown.len)
		fwrite(p->shown.data + tail, 1, p->shown.len - tail, stderr);
	fputc('\n', stderr);
	if (!p->ended)
		kill(p->pid, SIGKILL);
	exit(1);
}

static bool is_as_before(const struct onpty *p)
{
	struct termios now;

	return tcgetattr(p->slave, &now) == 0 && now.c_iflag == p->before.c_iflag &&
	       now.c_oflag == p->before.c_oflag && now.c_cflag == p->before.c_cflag &&
	       now.c_lflag == p->before.c_lflag &&
	       !memcmp(now.c_cc, p->before.c_cc, sizeof(now.c_cc));
}

static bool is_raw(const struct onpty *p)
{
	struct termios now;

	return tcgetattr(p->slave, &now) == 0 && !(now.c_lflag & (ICANON | ISIG | ECHO | IEXTEN)) &&
	       !(now.c_oflag & OPOST) && !(now.c_iflag & (IXON | ICRNL | ISTRIP));
}

/* False: there is nothing. */
static bool take_output(struct onpty *p)
{
	char chunk[8192];
	ssize_t n = read(p->master, chunk, sizeof(chunk));
	size_t drop;

	if (n <= 0)
		return false;
	buf_add(&p->shown, chunk, (size_t)n);
	if (p->shown.len < (size_t)4 * KEPT)
		return true;
	drop = p->shown.len - KEPT;
	memmove(p->shown.data, p->shown.data + drop, KEPT + 1);
	p->shown.len = KEPT;
	p->found = p->found > drop ? p->found - drop : 0;
	return true;
}

static void take_child(struct onpty *p)
{
	struct signalfd_siginfo info;
	int status;

	(void)!read(p->children, &info, sizeof(info));
	while (waitpid(p->pid, &status, WNOHANG | WUNTRACED | WCONTINUED) == p->pid) {
		p->stopped = WIFSTOPPED(status);
		p->ended = WIFEXITED(status) || WIFSIGNALED(status);
		p->status = status;
		if (p->ended)
			return;
	}
}

/* Lets time pass until something happens, 100 ms at most: settings of a terminal tell nobody that
 * they changed. */
static void turn(struct onpty *p, const char *step)
{
	struct pollfd pfd[2] = {
		{ .fd = p->stalled ? -1 : p->master, .events = POLLIN },
		{ .fd = p->children, .events = POLLIN },
	};

	if (clock_ms() >= p->deadline)
		fail(p, "did not come within the time", step);
	(void)poll(pfd, 2, 100);
	if (pfd[0].revents)
		(void)take_output(p);
	if (pfd[1].revents)
		take_child(p);
}

/* In place. Returns the length. */
static size_t unescape(char *text)
{
	char *out = text;

	for (const char *in = text; *in; in++) {
		char hex[3] = { 0 };

		if (*in != '\\') {
			*out++ = *in;
			continue;
		}
		switch (*++in) {
		case 'r':
			*out++ = '\r';
			break;
		case 'n':
			*out++ = '\n';
			break;
		case 'x':
			memcpy(hex, in + 1, 2);
			in += 2;
			*out++ = (char)strtol(hex, NULL, 16);
			break;
		default:
			*out++ = *in;
		}
	}
	return (size_t)(out - text);
}

/* What expect has not passed yet. */
static const char *find(const struct onpty *p, const char *text, size_t len)
{
	const char *shown = buf_text(&p->shown);

	return memmem(shown + p->found, p->shown.len - p->found, text, len);
}

static void expect(struct onpty *p, char *text, const char *step)
{
	size_t len = unescape(text);
	const char *at;

	while (!(at = find(p, text, len))) {
		if (!p->ended)
			turn(p, step);
		else if (!take_output(p))
			fail(p, "the program ended before", step);
	}
	p->found = (size_t)(at - buf_text(&p->shown)) + len;
}

static void type(struct onpty *p, char *text, const char *step)
{
	size_t len = unescape(text), at = 0;

	while (at < len) {
		ssize_t n = write(p->master, text + at, len - at);

		if (n > 0)
			at += (size_t)n;
		else if (errno == EAGAIN)
			turn(p, step);
		else
			fail(p, strerror(errno), step);
	}
}

static void set_size(struct onpty *p, char *text, const char *step)
{
	struct winsize size = { 0 };

	if (sscanf(text, "%hu %hu", &size.ws_row, &size.ws_col) != 2 ||
		ioctl(p->master, TIOCSWINSZ, &size) < 0)
		fail(p, "could not be set", step);
}

static void run(struct onpty *p, char *command, const char *step)
{
	pid_t child = fork();
	sigset_t none;
	char pid[16];
	int status;

	if (child == 0) {
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		(void)snprintf(pid, sizeof(pid), "%d", (int)p->pid);
		setenv("PID", pid, 1);
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
		fail(p, "did not succeed", step);
}

static void signal_it(struct onpty *p, char *text, const char *step)
{
	if (kill(p->pid, (int)strtol(text, NULL, 10)) < 0)
		fail(p, strerror(errno), step);
}

static void wait_raw(struct onpty *p, char *text, const char *step)
{
	(void)text;
	while (!is_raw(p))
		turn(p, step);
}

static void wait_stopped(struct onpty *p, char *text, const char *step)
{
	(void)text;
	while (!p->stopped)
		turn(p, step);
	if (!is_as_before(p))
		fail(p, "the terminal is not as it was", step);
}

static void stall(struct onpty *p, char *text, const char *step)
{
	(void)text;
	(void)step;
	p->stalled = true;
}

/* The kernel tells the shell, which is us, and a shell tells its jobs. */
static void hang_up(struct onpty *p, char *text, const char *step)
{
	(void)text;
	(void)step;
	close(p->slave);
	close(p->master);
	p->slave = p->master = -1;
	p->stalled = true;
	kill(-p->pid, SIGHUP);
}

static void wait_end(struct onpty *p, char *wanted, const char *step)
{
	char got[32];

	while (!p->ended)
		turn(p, step);
	if (WIFEXITED(p->status))
		(void)snprintf(got, sizeof(got), "exit %d", WEXITSTATUS(p->status));
	else
		(void)snprintf(got, sizeof(got), "signal %d", WTERMSIG(p->status));
	if (strcmp(got, wanted) != 0)
		fail(p, got, step);
	if (p->slave >= 0 && !is_as_before(p))
		fail(p, "the terminal is not as it was", step);
}

static const struct {
	const char *verb;
	void (*run)(struct onpty *p, char *text, const char *step);
} steps[] = {
	{ "expect", expect },
	{ "send", type },
	{ "size", set_size },
	{ "signal", signal_it },
	{ "run", run },
	{ "raw", wait_raw },
	{ "stopped", wait_stopped },
	{ "stall", stall },
	{ "hang-up", hang_up },
	{ "ends", wait_end },
};

static void do_step(struct onpty *p, char *line)
{
	CLEAN(str) char *step = xstrdup(line);
	char *text = line + strcspn(line, " ");

	if (*text)
		*text++ = 0;
	p->deadline = clock_in(STEP_MS);
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
		if (!strcmp(line, steps[i].verb)) {
			steps[i].run(p, text, step);
			return;
		}
	fail(p, "there is no such step", step);
}

/* A session of ours, with the terminal; the program is a job in front. */
static bool begin(struct onpty *p, char **argv)
{
	struct winsize size = { .ws_row = 24, .ws_col = 80 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	p->children = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	p->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (setsid() < 0 || p->children < 0 || p->master < 0 || grantpt(p->master) < 0 ||
		unlockpt(p->master) < 0)
		return false;
	p->slave = open(ptsname(p->master), O_RDWR | O_CLOEXEC);
	if (p->slave < 0 || tcgetattr(p->slave, &p->before) < 0)
		return false;
	/* Settings that nobody has by accident. */
	p->before.c_iflag &= ~(tcflag_t)IXON;
	p->before.c_cc[VINTR] = 0x07;
	tcsetattr(p->slave, TCSANOW, &p->before);
	ioctl(p->master, TIOCSWINSZ, &size);
	signal(SIGTTOU, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	p->pid = fork();
	if (p->pid == 0) {
		setpgid(0, 0);
		tcsetpgrp(p->slave, getpid());
		signal(SIGTTOU, SIG_DFL);
		signal(SIGHUP, SIG_DFL);
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		for (int i = 0; i < 3; i++)
			dup2(p->slave, i);
		execvp(argv[0], argv);
		_exit(127);
	}
	setpgid(p->pid, p->pid);
	return p->pid > 0;
}

int main(int argc, char **argv)
{
	struct onpty p = { .master = -1, .slave = -1 };
	CLEAN(str) char *line = NULL;
	size_t room = 0;

	if (argc < 2 || !begin(&p, argv + 1)) {
		perror("onpty");
		return 2;
	}
	while (getline(&line, &room, stdin) > 0) {
		line[strcspn(line, "\n")] = 0;
		if (*line)
			do_step(&p, line + strspn(line, " \t"));
	}
	p.deadline = clock_in(STEP_MS);
	if (!p.ended)
		fail(&p, "the program still runs", "end of the steps");
	buf_release(&p.shown);
	return 0;
}
