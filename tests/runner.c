/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the registered tests one by one and reports in TAP. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXIT_SKIP 77

static struct test *first, **last = &first;
static const char *running;
static size_t number;

void test_register(struct test *test)
{
	*last = test;
	last = &test->next;
}

static _Noreturn void fail(void)
{
	fflush(stdout);
	_exit(1);
}

void test_check(bool holds, const char *what, const char *file, int line)
{
	if (holds)
		return;
	printf("# %s:%d: does not hold: %s\n", file, line, what);
	fail();
}

void test_check_int(long long got, long long want, const char *what, const char *file, int line)
{
	if (got == want)
		return;
	printf("# %s:%d: %s is %lld (0x%llx), want %lld (0x%llx)\n", file, line, what, got,
		(unsigned long long)got, want, (unsigned long long)want);
	fail();
}

void test_check_str(const char *got, const char *want, const char *what, const char *file, int line)
{
	if (got == want || (got && want && !strcmp(got, want)))
		return;
	printf("# %s:%d: %s is \"%s\", want \"%s\"\n", file, line, what, got ? got : "(null)",
		want ? want : "(null)");
	fail();
}

void test_check_mem(
	const void *got, const void *want, size_t n, const char *what, const char *file, int line)
{
	const unsigned char *g = got, *w = want;

	for (size_t i = 0; i < n; i++) {
		if (g[i] == w[i])
			continue;
		printf("# %s:%d: %s differs at byte %zu: 0x%02x, want 0x%02x\n", file, line, what,
			i, g[i], w[i]);
		fail();
	}
}

void test_check_shell(const char *script, const char *file, int line)
{
	test_check(system(script) == 0, script, file, line);
}

_Noreturn void test_skip(const char *reason)
{
	printf("ok %zu - %s # SKIP %s\n", number, running, reason);
	fflush(stdout);
	_exit(EXIT_SKIP);
}

static int open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	if (!dir)
		return -1;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static _Noreturn void run(const struct test *test)
{
	sigset_t none;
	int before, after;

	setpgid(0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	before = open_fds();
	test->run();
	after = open_fds();
	if (before != after)
		printf("# left descriptors open: %d before, %d after\n", before, after);
	fflush(stdout);
	/* Not _exit: leak checkers report from here. */
	exit(before == after ? 0 : 1);
}

/* False when it did not end in time. */
static bool wait_for(pid_t pid, unsigned seconds, int *ret_status)
{
	const struct timespec limit = { .tv_sec = seconds };
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	/* The only child there is: a stale SIGCHLD is no trouble, the next turn waits again. */
	while (waitpid(pid, ret_status, WNOHANG) != pid)
		if (sigtimedwait(&child, NULL, &limit) < 0 && errno == EAGAIN)
			return false;
	return true;
}

static bool run_one(const struct test *test)
{
	bool in_time;
	int status = 0;
	pid_t pid;

	running = test->name;
	number++;
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		run(test);
	if (pid < 0) {
		printf("not ok %zu - %s # fork: %s\n", number, test->name, strerror(errno));
		return false;
	}
	in_time = wait_for(pid, test->seconds, &status);
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	if (!in_time)
		(void)waitpid(pid, &status, 0);
	if (in_time && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIP)
		return true;
	if (in_time && status == 0) {
		printf("ok %zu - %s\n", number, test->name);
		return true;
	}
	if (!in_time)
		printf("# not done after %u s\n", test->seconds);
	else if (WIFSIGNALED(status))
		printf("# ended by signal %d (%s)\n", WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	printf("not ok %zu - %s\n", number, test->name);
	return false;
}

static bool wanted(const struct test *test, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], test->name))
			return true;
	return argc <= 1;
}

int main(int argc, char **argv)
{
	size_t plan = 0, failed = 0;
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	for (const struct test *t = first; t; t = t->next)
		plan += wanted(t, argc, argv);
	printf("1..%zu\n", plan);
	for (const struct test *t = first; t; t = t->next)
		if (wanted(t, argc, argv) && !run_one(t))
			failed++;
	return failed || !plan ? 1 : 0;
}
