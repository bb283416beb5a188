/* SPDX-License-Identifier: Apache-2.0 */
/* The one poll loop of a process. */
#include "loop.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "clock.h"
#include "fd.h"

bool loop_init(struct loop *loop, bool catch_signals, struct err *err)
{
	struct sigaction hup;
	sigset_t set;

	*loop = (struct loop){ .signals = -1 };
	if (!catch_signals)
		return true;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGQUIT);
	/* A blocked signal reaches the signalfd even when it is ignored. */
	if (sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler != SIG_IGN)
		sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	loop->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return loop->signals >= 0 || err_errno(err, "signalfd");
}

void loop_release(struct loop *loop)
{
	if (loop)
		fd_close(&loop->signals);
}

void loop_add(struct loop *loop, struct source *source)
{
	for (int i = 0; i < LOOP_SOURCES; i++)
		if (!loop->sources[i]) {
			loop->sources[i] = source;
			return;
		}
	assert(false && "LOOP_SOURCES is too small");
}

void loop_remove(struct loop *loop, const struct source *source)
{
	for (int i = 0; i < LOOP_SOURCES; i++)
		if (loop->sources[i] == source)
			loop->sources[i] = NULL;
}

/* What one source gave to poll, kept so that a callback may change the table. */
struct asked {
	struct source *source;
	int64_t due;
};

static int ask_all(struct loop *loop, struct pollfd *pfd, struct asked *asked, int64_t *deadline)
{
	int n = 0;

	for (int i = 0; i < LOOP_SOURCES; i++) {
		struct source *s = loop->sources[i];
		short want;

		if (!s)
			continue;
		want = s->wants && s->fd >= 0 ? s->wants(s->self) : 0;
		/* poll() reports hang-ups even on no events; hide what nobody wants. */
		pfd[n] = (struct pollfd){ .fd = want ? s->fd : -1, .events = want };
		asked[n] = (struct asked){ s, s->due ? s->due(s->self) : CLOCK_NEVER };
		if (asked[n].due < *deadline)
			*deadline = asked[n].due;
		n++;
	}
	return n;
}

static bool still_there(const struct loop *loop, const struct source *source)
{
	for (int i = 0; i < LOOP_SOURCES; i++)
		if (loop->sources[i] == source)
			return true;
	return false;
}

static int timeout_until(int64_t deadline)
{
	int64_t left = deadline == CLOCK_NEVER ? CLOCK_NEVER : deadline - clock_ms();

	if (left == CLOCK_NEVER)
		return -1;
	return left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

static void take_signal(struct loop *loop)
{
	struct signalfd_siginfo info;

	if (read(loop->signals, &info, sizeof(info)) != sizeof(info))
		return;
	loop->interrupted = true;
	loop->signal = (int)info.ssi_signo;
}

static bool turn(struct loop *loop, int64_t deadline, struct err *err)
{
	struct pollfd pfd[LOOP_SOURCES + 1];
	struct asked asked[LOOP_SOURCES];
	int n = ask_all(loop, pfd, asked, &deadline);
	int64_t now;

	pfd[n] = (struct pollfd){ .fd = loop->signals, .events = POLLIN };
	if (poll(pfd, (nfds_t)n + 1, timeout_until(deadline)) < 0)
		return errno == EINTR || err_errno(err, "poll");
	if (pfd[n].revents)
		take_signal(loop);
	now = clock_ms();
	for (int i = 0; i < n; i++) {
		struct source *s = asked[i].source;

		if (!pfd[i].revents && asked[i].due > now)
			continue;
		if (still_there(loop, s))
			s->ready(s->self, pfd[i].revents);
	}
	return true;
}

bool loop_until(struct loop *loop, bool (*done)(const void *arg), const void *arg, int64_t deadline,
	struct err *err)
{
	while (!done(arg)) {
		if (loop->interrupted)
			return err_set(err, ERR_INTERRUPTED, "interrupted");
		if (deadline != CLOCK_NEVER && clock_ms() >= deadline)
			return err_set(err, ERR_TIME, "time is up");
		if (!turn(loop, deadline, err))
			return false;
	}
	return true;
}

static bool never(const void *arg)
{
	(void)arg;
	return false;
}

bool loop_pause(struct loop *loop, int64_t ms, struct err *err)
{
	return loop_until(loop, never, NULL, clock_in(ms), err) || err->code == ERR_TIME;
}
