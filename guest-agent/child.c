/* SPDX-License-Identifier: Apache-2.0 */
/* From fork to exec: nothing of the agent's comes along. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "carry.h"
#include "kernfs.h"
#include "program.h"
#include "report.h"

bool child_enter_system(void)
{
	int ns = openat(kernfs_proc(), "1/ns/mnt", O_RDONLY | O_CLOEXEC);

	return ns >= 0 && setns(ns, CLONE_NEWNS) == 0;
}

/* As far as the hard limit can be had. Not setrlimit(): each C library has its own type for the
 * resource. */
static void set_limit(int resource, struct rlimit limit)
{
	struct rlimit now;

	if (syscall(SYS_prlimit64, 0, resource, &limit, &now) == 0 ||
		syscall(SYS_prlimit64, 0, resource, NULL, &now) < 0)
		return;
	now.rlim_cur = now.rlim_max < limit.rlim_cur ? now.rlim_max : limit.rlim_cur;
	(void)syscall(SYS_prlimit64, 0, resource, &now, NULL);
}

/* What systemd gives to a service. */
static void set_limits(void)
{
	set_limit(RLIMIT_NOFILE, (struct rlimit){ 1024, 524288 });
	set_limit(RLIMIT_CORE, (struct rlimit){ 0, RLIM_INFINITY });
	set_limit(RLIMIT_MEMLOCK, (struct rlimit){ 8 << 20, 8 << 20 });
}

static void reset_signals(void)
{
	/* The kernel's struct sigaction, whose zero is the default. Not signal(): a C library keeps
	 * some signals for itself. */
	static const unsigned long plain[4];
	sigset_t none;

	for (int i = 1; i < _NSIG; i++)
		(void)syscall(SYS_rt_sigaction, i, plain, NULL, _NSIG / 8);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become(const struct child_spec *spec)
{
	const enum message kind = spec->kind;
	struct report report = { .about = REPORT_FAILED };
	int error = 0;

	setsid();
	reset_signals();
	set_limits();
	(void)kernfs_write(kernfs_proc(), "self/oom_score_adj", "0");
	umask(022);
	for (int i = 0; i < 3; i++)
		if (dup2(spec->stdio[i], i) < 0)
			error = errno;
	report.kind = FAIL_RESOURCES;
	if (!error && spec->enter_system && !child_enter_system()) {
		error = errno;
		report.kind = FAIL_NOT_READY;
	}
	if (!error && kind == MSG_EXEC)
		program_become(spec->exec, spec->report);
	if (!error && kind == MSG_GET)
		carry_out(spec->path, spec->manifest, spec->report);
	if (!error && kind == MSG_PUT)
		carry_in(spec->path, spec->report);
	report.error = error;
	report_send(spec->report, &report, -1);
	_exit(127);
}

/* As the kernel's struct clone_args, up to what CLONE_INTO_CGROUP needs. */
struct clone_request {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
		set_tid_size, cgroup;
};

#define INTO_CGROUP 0x200000000ull

/* Born inside its cgroup: moving it there later would wait for all processors. */
static pid_t fork_into(const struct group *group)
{
	struct clone_request request = {
		.flags = INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)group->dir,
	};

	if (group->dir < 0)
		return fork();
	return (pid_t)syscall(SYS_clone3, &request, sizeof(request));
}

pid_t child_start(const struct child_spec *spec)
{
	pid_t pid = fork_into(spec->group);

	if (pid < 0 && spec->group->dir >= 0) {
		group_release(spec->group);
		pid = fork();
	}
	if (pid == 0)
		become(spec);
	if (pid > 0)
		spec->group->session = pid;
	return pid;
}
