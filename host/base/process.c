/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "fd.h"
#include "xalloc.h"

struct process {
	pid_t pid;
	int pidfd;
	bool ended; /* and reaped: the number may belong to someone else by now */
	int status;
};

/* Gives the standard descriptors and marks all others as not to be inherited but keep. */
static bool set_descriptors(const struct process_spec *spec)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return false;
	for (int i = 0; i < 3; i++)
		if (dup2(spec->stdio[i] < 0 ? null : spec->stdio[i], i) < 0)
			return false;
	if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		return false;
	for (const int *fd = spec->keep; fd && *fd >= 0; fd++)
		if (fcntl(*fd, F_SETFD, 0) < 0)
			return false;
	return true;
}

static bool die_with(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return false;
	/* The parent may have died before the call above. */
	return getppid() == parent || raise(SIGKILL) != 0;
}

static _Noreturn void become(const struct process_spec *spec, pid_t parent, int report)
{
	union {
		const char *const *given;
		char *const *wanted;
	} argv = { .given = spec->argv };
	sigset_t none;
	bool apart = setsid() >= 0;
	int why;

	/* Ctrl-C until then was the parent's to hear: what waits for us is thrown away. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGINT, SIG_DFL);
	signal(SIGQUIT, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* A change of rights makes the kernel forget whom to die with, so that is said after it. */
	if (apart && set_descriptors(spec) && (!spec->enter || spec->enter(spec->self)) &&
		die_with(parent))
		execvp(argv.wanted[0], argv.wanted);
	why = errno;
	(void)!write(report, &why, sizeof(why));
	_exit(127);
}

/* Until exec succeeded (the pipe closes) or failed (the reason arrives). */
static bool read_report(int report, const struct process_spec *spec, struct err *err)
{
	int why;
	ssize_t n;

	do
		n = read(report, &why, sizeof(why));
	while (n < 0 && errno == EINTR);
	if (n != sizeof(why))
		return true;
	if (why == ENOENT && spec->package)
		return err_set(err, ERR_SYSTEM,
			"there is no program %s in PATH: install the package %s", spec->argv[0],
			spec->package);
	return err_set(err, ERR_SYSTEM, "starting %s: %s", spec->argv[0], strerror(why));
}

struct process *process_start(const struct process_spec *spec, struct err *err)
{
	struct process *p;
	pid_t parent = getpid(), pid;
	int report[2];

	if (pipe2(report, O_CLOEXEC) < 0)
		return err_errno(err, "pipe"), NULL;
	pid = fork();
	if (pid == 0)
		become(spec, parent, report[1]);
	fd_close(&report[1]);
	if (pid < 0) {
		err_errno(err, "starting %s", spec->argv[0]);
		fd_close(&report[0]);
		return NULL;
	}
	p = xcalloc(1, sizeof(*p));
	p->pid = pid;
	p->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p->pidfd < 0)
		err_errno(err, "watching %s", spec->argv[0]);
	if (!read_report(report[0], spec, err) || p->pidfd < 0) {
		process_free(p);
		p = NULL;
	}
	fd_close(&report[0]);
	return p;
}

void process_free(struct process *p)
{
	if (!p)
		return;
	if (!p->ended) {
		kill(-p->pid, SIGKILL);
		kill(p->pid, SIGKILL);
		while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	fd_close(&p->pidfd);
	free(p);
}

int process_fd(const struct process *p)
{
	return p->pidfd;
}

bool process_ended(struct process *p, int *ret_status)
{
	if (!p->ended && waitpid(p->pid, &p->status, WNOHANG) == p->pid)
		p->ended = true;
	if (p->ended && ret_status)
		*ret_status = p->status;
	return p->ended;
}

bool process_wait(struct process *p, int milliseconds)
{
	struct pollfd pfd = { .fd = p->pidfd, .events = POLLIN };

	if (!process_ended(p, NULL))
		(void)poll(&pfd, 1, milliseconds);
	return process_ended(p, NULL);
}

int64_t process_cpu_ms(const struct process *p)
{
	CLEAN(str) char *path = xasprintf("/proc/%d/stat", (int)p->pid);
	unsigned long long user = 0, system = 0;
	FILE *f = fopen(path, "re");
	char line[1024], *rest = NULL;

	if (f && fgets(line, sizeof(line), f))
		rest = strrchr(line, ')');
	if (rest && sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
			    &system) != 2)
		user = system = 0;
	if (f)
		(void)fclose(f);
	return (int64_t)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

char *process_epitaph(int status)
{
	if (WIFSIGNALED(status))
		return xasprintf("was killed by signal %d (%s)", WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	return xasprintf("ended with status %d", WEXITSTATUS(status));
}

/* Reads to the end of file within the time. */
static bool collect(int fd, int64_t deadline, struct buf *out, size_t max)
{
	char chunk[4096];

	for (;;) {
		struct pollfd pfd = { .fd = fd, .events = POLLIN };
		int64_t left = deadline - clock_ms();
		ssize_t n;

		if (left <= 0 || poll(&pfd, 1, (int)left) == 0)
			return false;
		n = read(fd, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0;
		if ((size_t)n > max - out->len)
			n = (ssize_t)(max - out->len);
		buf_add(out, chunk, (size_t)n);
	}
}

static bool say_failure(const char *name, int status, const struct buf *out, struct err *err)
{
	CLEAN(str) char *epitaph = process_epitaph(status);
	CLEAN(str) char *words = xstrdup(buf_text(out));
	char *line;

	while (*words && words[strlen(words) - 1] == '\n')
		words[strlen(words) - 1] = 0;
	line = strrchr(words, '\n');
	line = line ? line + 1 : words;
	return err_set(err, ERR_SYSTEM, "%s %s%s%.300s", name, epitaph, *line ? ": " : "", line);
}

bool process_run(const char *const *argv, const char *package, int64_t milliseconds,
	struct buf *out, size_t max, struct err *err)
{
	int64_t deadline = clock_in(milliseconds);
	CLEAN(process) struct process *p = NULL;
	CLEAN(fd) int ours = -1;
	CLEAN(fd) int theirs = -1;
	int pair[2], status = 0;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_errno(err, "pipe");
	ours = pair[0];
	theirs = pair[1];
	p = process_start(
		&(struct process_spec){
			.argv = argv, .package = package, .stdio = { -1, theirs, theirs } },
		err);
	if (!p)
		return false;
	fd_close(&theirs);
	if (!collect(ours, deadline, out, max) ||
		!process_wait(p, (int)(deadline - clock_ms() > 0 ? deadline - clock_ms() : 0)))
		return err_set(err, ERR_TIME, "%s did not end within %lld s", argv[0],
			(long long)milliseconds / 1000);
	process_ended(p, &status);
	return status == 0 || say_failure(argv[0], status, out, err);
}

char *process_find(const char *name)
{
	const char *path = getenv("PATH");

	while (path && *path) {
		size_t len = strcspn(path, ":");
		char *file = xasprintf("%.*s/%s", (int)len, path, name);

		if (len && access(file, X_OK) == 0)
			return file;
		free(file);
		path += len + (path[len] == ':');
	}
	return NULL;
}
