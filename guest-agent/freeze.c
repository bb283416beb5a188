/* SPDX-License-Identifier: Apache-2.0 */
/* Freeze by a child, thaw for certain. */
#include "freeze.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"
#include "heal.h"

/* musl comes without the kernel's headers. */
#define FREEZE_ROOT _IOWR('X', 119, int) /* FIFREEZE */
#define THAW_ROOT   _IOWR('X', 120, int) /* FITHAW */

/* Not ioctl(): whether its request is signed depends on the C library. */
static long control(int fd, unsigned long request)
{
	return syscall(SYS_ioctl, fd, request, 0);
}

void freeze_init(struct freeze *fz)
{
	*fz = (struct freeze){ .fd = -1 };
}

/* Closes all descriptors from 3 on but these two. */
static void keep_only(int a, int b)
{
	unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);

	if (low > 3)
		(void)syscall(SYS_close_range, 3, low - 1, 0);
	if (high > low + 1)
		(void)syscall(SYS_close_range, low + 1, high - 1, 0);
	(void)syscall(SYS_close_range, high + 1, ~0u, 0);
}

static _Noreturn void hold(int fd, uint32_t deadline_ms)
{
	struct pollfd told = { .fd = fd, .events = POLLIN };
	int root, error = 0;

	root = child_enter_system() ? open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (root < 0)
		error = errno;
	else
		keep_only(fd, root); /* it may live long: others' pipes must end without it */
	if (!error && control(root, FREEZE_ROOT) < 0)
		error = errno;
	(void)!write(fd, &error, sizeof(error));
	if (error)
		_exit(1);
	(void)poll(&told, 1, (int)deadline_ms);
	if (control(root, THAW_ROOT) < 0)
		error = errno;
	(void)!write(fd, &error, sizeof(error));
	_exit(0);
}

static int start_child(struct freeze *fz, uint32_t deadline_ms)
{
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return errno;
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		hold(ends[1], deadline_ms);
	}
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return errno;
	}
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	fz->fd = ends[0];
	return 0;
}

void freeze_prepare(struct freeze *fz, const struct msg_prepare *m, bool system)
{
	const uint32_t ms = m->deadline_ms < INT32_MAX ? m->deadline_ms : INT32_MAX;

	freeze_clear(fz);
	fz->error = system ? start_child(fz, ms) : EOPNOTSUPP;
	fz->prepared_due = fz->error != 0;
	fz->answer_by = fz->error ? 0 : now_ms() + ms;
}

static void on_child(void *self)
{
	struct freeze *fz = self;
	int error;
	ssize_t n;

	if (fz->fd < 0)
		return;
	n = read(fz->fd, &error, sizeof(error));
	if (n < 0)
		return;
	if (n == sizeof(error) && fz->answer_by) {
		fz->answer_by = 0;
		fz->error = error;
		fz->frozen = error == 0 && !fz->healed_due;
		fz->prepared_due = !fz->nobodys;
		if (!error)
			return;
	} else if (n == sizeof(error) && fz->healed_due && !fz->heal_error) {
		fz->heal_error = error;
	} else if (fz->frozen && !fz->healed_due) {
		fz->lapsed = true;
	}
	close(fz->fd);
	fz->fd = -1;
	fz->frozen = false;
}

void freeze_heal(struct freeze *fz, const struct msg_heal *m)
{
	fz->heal_error = fz->lapsed ? ETIMEDOUT : 0;
	fz->lapsed = fz->frozen = false;
	if (!fz->heal_error)
		fz->heal_error = heal_seed(m->seed);
	if (!fz->heal_error)
		fz->heal_error = heal_clock(m->realtime_ns);
	fz->healed_due = true;
	/* The child reads the end, thaws, and reports on its own half. */
	if (fz->fd >= 0)
		(void)shutdown(fz->fd, SHUT_WR);
}

bool freeze_can_heal(const struct freeze *fz)
{
	return fz->nobodys || (!fz->answer_by && !fz->prepared_due);
}

bool freeze_inherit(struct freeze *fz)
{
	fz->prepared_due = fz->healed_due = fz->lapsed = false;
	fz->nobodys = fz->fd >= 0;
	return fz->frozen || fz->answer_by;
}

void freeze_wants(struct freeze *fz, struct loop *loop)
{
	if (fz->answer_by)
		loop_until(loop, fz->answer_by);
	if (fz->fd >= 0)
		loop_want(loop, fz->fd, POLLIN, on_child, fz);
}

/* The freeze hangs. It thaws when it has come about after all: our end is closed. */
static void give_up(struct freeze *fz)
{
	const bool nobodys = fz->nobodys, healed_due = fz->healed_due;

	freeze_clear(fz);
	fz->error = fz->heal_error = ETIMEDOUT;
	fz->healed_due = healed_due;
	fz->prepared_due = !nobodys;
}

void freeze_turn(struct freeze *fz, struct session *s, unsigned running)
{
	if (fz->answer_by && now_ms() >= fz->answer_by)
		give_up(fz);
	if (!session_room(s))
		return;
	/* Bytes of streams must not follow. */
	if (fz->prepared_due && session_quiet(s)) {
		SEND(s, PREPARED, prepared, 0, .error = (uint32_t)fz->error, .running = running);
		fz->prepared_due = false;
		if (fz->error)
			s->phase = OPEN;
	}
	if (fz->healed_due && fz->fd < 0) {
		SEND(s, HEALED, healed, 0, .error = (uint32_t)fz->heal_error);
		fz->healed_due = false;
	}
}

void freeze_clear(struct freeze *fz)
{
	if (fz->fd >= 0)
		close(fz->fd);
	freeze_init(fz);
}
