/* SPDX-License-Identifier: Apache-2.0 */
/* A look at a hostile disk: honest links work, hostile ones find nothing, nothing odd is opened. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "subject.h"
#include "test.h"

static struct err err;
static char dir[32], out[16384], said[1024];

/* A root of its own, with a subject in it. */
static void start(void)
{
	if (geteuid() != 0)
		SKIP("needs root");
	strcpy(dir, "/tmp/subject.XXXXXX");
	CHECK(mkdtemp(dir));
	CHECK_INT(chdir(dir), 0);
	CHECK_INT(mkdir("subject", 0755), 0);
	CHECK_INT(
		system("echo grader >secret; cd subject; mkdir -p etc usr/etc; "
		       "printf 'a page' >etc/page; ln -s /etc/page honest; ln -s ../../secret out; "
		       "ln -s /../secret out2; ln -s /proc/self/root/secret out3; ln -s loop loop; "
		       "ln -s /etc folder; mkfifo fifo; mknod zero c 1 5; "
		       "printf x >\"$(printf 'a\\nb\\\\c')\"; chmod 4750 etc/page; "
		       "touch -d @77 etc/page; touch -h -d @-5 honest"),
		0);
}

static void stop(void)
{
	CHECK_INT(chdir("/"), 0);
	CHECK(dir_remove(dir, &err));
}

static void read_back(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, text, size - 1);

	CHECK(fd >= 0 && n >= 0);
	text[n] = '\0';
	close(fd);
}

/* Runs it in the root; what it wrote is in out and said. */
static int subject(const char *applet, const char *path)
{
	char *argv[] = { (char *)"/bin/subject", (char *)applet, (char *)path, NULL };
	int status;
	pid_t child = fork();

	if (child == 0) {
		if (!freopen("out.txt", "w", stdout) || !freopen("err.txt", "w", stderr))
			_exit(98);
		if (chroot(".") < 0 || chdir("/") < 0)
			_exit(99);
		_exit(subject_main(path ? 3 : 2, argv));
	}
	CHECK_INT(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	read_back("out.txt", out, sizeof(out));
	read_back("err.txt", said, sizeof(said));
	return WEXITSTATUS(status);
}

static void prints(const char *applet, const char *path, const char *text)
{
	CHECK_INT(subject(applet, path), 0);
	CHECK_STR(out, text);
	CHECK_STR(said, "");
}

static void refuses(const char *applet, const char *path, const char *why)
{
	CHECK_INT(subject(applet, path), 1);
	CHECK_STR(out, "");
	CHECK_STR(said, why);
}

TEST(cat)
{
	start();
	prints("cat", "/etc/page", "a page");
	prints("cat", "etc/page", "a page");
	prints("cat", "/honest", "a page");
	prints("cat", "/../../folder/page", "a page");
	refuses("cat", "/none", "subject: /none: No such file or directory\n");
	refuses("cat", "/out", "subject: /out: No such file or directory\n");
	refuses("cat", "/out2", "subject: /out2: No such file or directory\n");
	refuses("cat", "/out3", "subject: /out3: No such file or directory\n");
	refuses("cat", "/loop", "subject: /loop: Too many levels of symbolic links\n");
	refuses("cat", "/fifo", "subject: /fifo: not a regular file\n");
	refuses("cat", "/zero", "subject: /zero: not a regular file\n");
	refuses("cat", "/etc", "subject: /etc: not a regular file\n");
	refuses("cat", "", "subject: : not a path that can be\n");
	stop();
}

TEST(stat)
{
	start();
	prints("stat", "/etc/page", "f 4750 0 0 6 77 /etc/page\n");
	prints("stat", "/honest", "f 4750 0 0 6 77 /honest\n");
	prints("lstat", "/honest", "l 777 0 0 9 -5 /honest -> /etc/page\n");
	CHECK_INT(subject("stat", "/zero"), 0);
	CHECK(!strncmp(out, "c 644 0 0 0 ", 12));
	CHECK_INT(subject("lstat", "/out3"), 0);
	CHECK(strstr(out, " /out3 -> /proc/self/root/secret\n"));
	refuses("stat", "/out", "subject: /out: No such file or directory\n");
	stop();
}

TEST(hash)
{
	start();
	prints("hash", "/honest",
		"9a8eeff1d0bc6b9b7acf170b1168d6d07f193dc770d4c1864b03e48d775e8d1a  /honest\n");
	refuses("hash", "/zero", "subject: /zero: not a regular file\n");
	stop();
}

TEST(find)
{
	start();
	prints("find", "/etc", "/etc\n/etc/page\n");
	prints("find", "/folder", "/folder\n/folder/page\n");
	prints("find", "/fifo", "/fifo\n");
	CHECK_INT(subject("find", "/"), 0);
	CHECK(strstr(out, "\n/a\\x0ab\\x5cc\n") && strstr(out, "\n/out3\n"));
	CHECK(!strstr(out, "/folder/") && !strstr(out, "secret"));
	refuses("find", "/out", "subject: /out: No such file or directory\n");
	stop();
}

TEST(getfattr)
{
	start();
	if (setxattr("subject/etc/page", "trusted.a", "\x01\xff", 2, 0) < 0) {
		stop();
		SKIP("no extended attributes here");
	}
	CHECK_INT(setxattr("subject/etc/page", "trusted.b", "", 0, 0), 0);
	CHECK_INT(subject("getfattr", "/honest"), 0);
	CHECK(strstr(out, "trusted.a=01ff\n") && strstr(out, "trusted.b=\n"));
	refuses("getfattr", "/fifo", "subject: /fifo: neither a regular file nor a folder\n");
	stop();
}

TEST(wrong_use)
{
	start();
	CHECK_INT(subject("cat", NULL), 2);
	CHECK(strstr(said, "usage: subject cat|"));
	CHECK_INT(subject("rm", "/"), 2);
	CHECK_INT(rename("subject", "elsewhere"), 0);
	CHECK_INT(subject("cat", "/etc/page"), 1);
	CHECK(strstr(said, "mount the disk"));
	stop();
}

TEST(names)
{
	CHECK(subject_is("subject"));
	CHECK(subject_is("/bin/subject"));
	CHECK(!subject_is("/bin/nosubject"));
	CHECK(!subject_is("/subject/agent"));
	CHECK(!subject_is(""));
	CHECK(!subject_is(NULL));
}
