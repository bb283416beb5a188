/* SPDX-License-Identifier: Apache-2.0 */
/* A home of a test's own, and whose processes are whose. */
#include "home.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "test.h"

#define LONG_MS 600000

char home[] = "/tmp/postern-XXXXXX";
char *postern;
static struct err err;
static int watcher; /* its pipe */

/* A check that fails ends the test at once: its machines have keepers that go on. So a process of
 * its own waits for the test's end, and then clears away what is left. */
static void leave_watcher(void)
{
	int ends[2];
	char byte;

	CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
	if (fork() != 0) {
		close(ends[0]);
		watcher = ends[1]; /* open as long as this process is there */
		return;
	}
	setsid();
	close(ends[1]);
	(void)!read(ends[0], &byte, 1);
	if (file_exists(home)) {
		(void)process_run((const char *[]){ postern, "down", "--all", NULL }, NULL, LONG_MS,
			&(struct buf){ 0 }, 0, &err);
		(void)dir_remove(home, &err);
	}
	_exit(0);
}

void home_make(void)
{
	CLEAN(str) char *images = home_path("images");
	CLEAN(str) char *there = realpath(images, NULL);
	CLEAN(str) char *link = NULL;

	if (!there || !getenv("POSTERN"))
		SKIP("there are no images, or $POSTERN does not name the program");
	postern = realpath(getenv("POSTERN"), NULL);
	CHECK(postern);
	CHECK(mkdtemp(home));
	CHECK_INT(setenv("POSTERN_HOME", home, 1), 0);
	link = xasprintf("%s/images", home);
	CHECK_INT(symlink(there, link), 0);
	leave_watcher();
}

void home_check_and_remove(const char *names)
{
	CLEAN(str)
	char *script = xasprintf("test \"$(ls -A %s | tr '\\n' ' ')\" = '%s' && "
				 "test -z \"$(ls -A %s/machines)\"",
		home, names, home);

	home_wait_processes(0, "at the end");
	CHECK_SHELL(script);
	CHECK(dir_remove(home, &err));
	close(watcher);
	free(postern);
	postern = NULL;
}

struct process *home_start(int input, const char *const *words)
{
	const char *argv[12] = { postern };
	struct process *p;

	for (int i = 0; words[i]; i++)
		argv[i + 1] = words[i];
	p = process_start(&(struct process_spec){ .argv = argv, .stdio = { input, -1, -1 } }, &err);
	if (!p)
		CHECK_STR(err.text, "a process");
	return p;
}

int home_end(struct process *p)
{
	int status = 0;

	CHECK(process_wait(p, LONG_MS));
	process_ended(p, &status);
	process_free(p);
	return status;
}

int home_run(const char *const *words)
{
	return home_end(home_start(-1, words));
}

static bool has_our_home(const char *pid)
{
	CLEAN(str) char *path = xasprintf("/proc/%s/environ", pid);
	CLEAN(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	static char text[65536];
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text));

	return n > 0 && memmem(text, (size_t)n, home, strlen(home));
}

static bool is_qemu(const char *pid)
{
	CLEAN(str) char *path = xasprintf("/proc/%s/comm", pid);
	CLEAN(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	char name[32] = "";

	return fd >= 0 && read(fd, name, sizeof(name) - 1) > 0 && !strncmp(name, "qemu-system", 11);
}

unsigned home_processes(struct ours *list)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	unsigned n = 0;

	CHECK(dir);
	while (n < OURS_MAX && (entry = readdir(dir))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid > 0 && pid != getpid() && pid != getppid() && has_our_home(entry->d_name))
			list[n++] = (struct ours){ pid, is_qemu(entry->d_name) };
	}
	closedir(dir);
	return n;
}

void home_wait_processes(unsigned wanted, const char *when)
{
	int64_t deadline = clock_in(60000);
	struct ours list[OURS_MAX];
	unsigned n;

	while (n = home_processes(list), n != wanted && clock_ms() < deadline)
		(void)poll(NULL, 0, 20);
	if (n != wanted)
		printf("# %s: %u processes are there, and not %u, of them %d\n", when, n, wanted,
			n ? (int)list[0].pid : 0);
	CHECK_INT(n, wanted);
}
