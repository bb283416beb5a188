/* SPDX-License-Identifier: Apache-2.0 */
/* From fork to exec: nothing of the agent's comes along. */
#include "child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernfs.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

bool child_enter_system(void)
{
	int ns = open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC);

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

/* The strings of a request, each with its NUL. Lives in the child alone. */
static char text[PAYLOAD_MAX];
static char *args[ARGS_MAX + 1], *environment[ENV_MAX + 1];

static char *lay_out(char *at, const struct bytes *strings, size_t n, char **pointers)
{
	for (size_t i = 0; i < n; i++) {
		pointers[i] = at;
		memcpy(at, strings[i].data, strings[i].len);
		at += strings[i].len;
		*at++ = '\0';
	}
	pointers[n] = NULL;
	return at;
}

static const char *search_path(void)
{
	for (char **e = environment; *e; e++)
		if (!strncmp(*e, "PATH=", 5))
			return *e + 5;
	return DEFAULT_PATH;
}

/* Tries each directory of the path. Returns with the most telling errno. */
static void exec_searched(const char *name)
{
	const char *dir = search_path();
	char path[PATH_LENGTH];
	int why = ENOENT;

	for (;;) {
		size_t len = strcspn(dir, ":");
		int n = snprintf(
			path, sizeof(path), "%.*s%s%s", (int)len, dir, len ? "/" : "", name);

		if (n < (int)sizeof(path)) {
			execve(path, args, environment);
			if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
				return;
			if (errno == EACCES || access(path, F_OK) == 0)
				why = EACCES;
		}
		if (!dir[len])
			break;
		dir += len + 1;
	}
	errno = why;
}

static enum fail_kind exec_failure(const char *path)
{
	switch (errno) {
	case ENOENT:
	case ENOTDIR:
		/* A script whose interpreter is missing is there all the same. */
		return access(path, F_OK) == 0 ? FAIL_NOT_EXECUTABLE : FAIL_NOT_FOUND;
	case E2BIG:
	case EAGAIN:
	case EMFILE:
	case ENFILE:
	case ENOMEM:
		return FAIL_RESOURCES;
	default:
		return FAIL_NOT_EXECUTABLE;
	}
}

static struct child_report try_exec(const struct child_spec *spec)
{
	const struct msg_exec *m = spec->exec;
	char *at = lay_out(text, m->argv, m->argc, args);
	struct child_report report;

	at = lay_out(at, m->env, m->envc, environment);
	if (m->dir.len)
		memcpy(at, m->dir.data, m->dir.len);
	if (spec->enter_system && !child_enter_system())
		return (struct child_report){ FAIL_NOT_READY, errno };
	if (chdir(m->dir.len ? at : "/") < 0)
		return (struct child_report){ FAIL_DIRECTORY, errno };
	assert(args[0]); /* the decoder refuses an empty vector */
	if (strchr(args[0], '/')) {
		execve(args[0], args, environment);
		report.error = errno;
		report.kind = exec_failure(args[0]);
	} else {
		exec_searched(args[0]);
		report.error = errno;
		report.kind = exec_failure("");
	}
	return report;
}

static _Noreturn void become(const struct child_spec *spec)
{
	struct child_report report;

	setsid();
	reset_signals();
	set_limits();
	(void)kernfs_write(AT_FDCWD, "/proc/self/oom_score_adj", "0");
	umask(022);
	for (int i = 0; i < 3; i++) {
		if (dup2(spec->stdio[i], i) < 0) {
			report = (struct child_report){ FAIL_RESOURCES, errno };
			goto fail;
		}
	}
	report = try_exec(spec);
fail:
	(void)!write(spec->report, &report, sizeof(report));
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
