/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's transfers alone, with streams that a host should not send and readers that go away.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "transfer.h"
#include "test.h"
#include "tree_script.h"

static struct script s;
static struct err err;
static struct transfer_result result;
static char dir[32], target[64];

static void start(void)
{
	strcpy(dir, "/tmp/transfer.XXXXXX");
	CHECK(mkdtemp(dir));
	CHECK_INT(chdir(dir), 0);
	(void)snprintf(target, sizeof(target), "%s/t", dir);
	script_init(&s);
}

static void stop(void)
{
	CHECK_INT(chdir("/"), 0);
	CHECK(dir_remove(dir, &err));
}

static void write_all(int fd, struct bytes b)
{
	size_t at = 0;

	(void)signal(SIGPIPE, SIG_IGN);
	while (at < b.len) {
		ssize_t n = write(fd, b.data + at, b.len - at);

		if (n <= 0)
			_exit(0);
		at += (size_t)n;
	}
}

/* The script, or its first bytes, through a pipe. */
static bool take(const char *path, size_t len)
{
	struct bytes all = script_bytes(&s);
	int ends[2];
	pid_t child;
	bool ok;

	CHECK_INT(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		write_all(ends[1], bytes_of(all.data, len < all.len ? len : all.len));
		_exit(0);
	}
	close(ends[1]);
	ok = transfer_take(ends[0], path, &result);
	close(ends[0]);
	CHECK_INT(waitpid(child, NULL, 0), child);
	CHECK_INT(ok, result.error == 0);
	return ok;
}

static void refused(const char *why)
{
	CHECK(!take(target, SIZE_MAX));
	if (!strstr(result.text, why))
		printf("# %s\n", result.text);
	CHECK(strstr(result.text, why));
	CHECK_SHELL("test -z \"$(find . -name '.part*')\"");
}

TEST_WITHIN(torn_anywhere, 120)
{
	size_t len;

	start();
	script_folder(&s, "");
	script_folder(&s, "d");
	script_text(&s, "d/f", "hello");
	script_link(&s, "d/l", "x");
	script_end(&s);
	len = script_bytes(&s).len;
	for (size_t i = 0; i < len; i++) {
		CHECK(!take(target, i));
		CHECK_INT(result.error, EPROTO);
		CHECK(strstr(result.text, "stopped early"));
	}
	CHECK_SHELL("test -z \"$(find . -name '.part*')\"");
	CHECK(take(target, len));
	CHECK_INT(result.entries, 4);
	CHECK_INT(result.bytes, len);
	CHECK_SHELL("test $(cat t/d/f) = hello && test $(readlink t/d/l) = x");
	stop();
}

TEST(links_lead_nowhere)
{
	start();
	CHECK_SHELL("mkdir out t; ln -s ../out t/d; ln -s ../out/f t/f");
	script_folder(&s, "");
	script_text(&s, "f", "x");
	script_folder(&s, "d");
	script_text(&s, "d/f", "x");
	refused("t/d: Not a directory");
	CHECK_INT(result.error, ENOTDIR);
	CHECK_SHELL("test -z \"$(ls -A out)\" && test $(cat t/f) = x && ! test -L t/f");
	script_init(&s);
	script_folder(&s, "");
	script_link(&s, "e", "../out");
	script_folder(&s, "e");
	refused("t/e: Not a directory");
	script_init(&s);
	script_folder(&s, "");
	script_text(&s, "../out/f", "x");
	refused("a path that is not allowed");
	CHECK_SHELL("test -z \"$(ls -A out)\"");
	stop();
}

TEST(faults_fail)
{
	start();
	script_file(&s, "", 3);
	script_extent(&s, 0, "ab", 2);
	script_fault(&s, EACCES, "");
	refused("t: Permission denied");
	CHECK_SHELL("test -z \"$(ls -A)\"");
	stop();
}

TEST(what_cannot_be_made)
{
	const struct rlimit small = { 4096, 4096 };
	char text[9000];

	start();
	memset(text, 'x', sizeof(text));
	CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &small), 0);
	script_file(&s, "", sizeof(text));
	script_extent(&s, 0, text, sizeof(text));
	refused("t: File too large");
	CHECK(!take("/proc/none/t", SIZE_MAX));
	CHECK(!take("relative", SIZE_MAX));
	CHECK_INT(result.error, EINVAL);
	CHECK_SHELL("test -z \"$(ls -A)\"");
	stop();
}

TEST(a_text_that_people_can_read)
{
	char name[256];

	start();
	script_folder(&s, "");
	script_fault(&s, ENOSPC, "a\nb\x1b");
	refused("/t/a?b?: No space left on device");
	memset(name, 'n', 255);
	name[255] = '\0';
	script_init(&s);
	script_folder(&s, "");
	script_fault(&s, ENOSPC, name);
	refused("n: No space left on device");
	CHECK(!strncmp(result.text, "...n", 4));
	CHECK(strlen(result.text) < sizeof(result.text));
	stop();
}

TEST(long_paths)
{
	char path[PATH_LENGTH + 8] = "";

	start();
	script_folder(&s, "");
	while (strlen(path) < PATH_LENGTH - 256) {
		if (*path)
			strcat(path, "/");
		memset(path + strlen(path), 'd', TREE_NAME_MAX);
		script_folder(&s, path);
	}
	script_end(&s);
	CHECK(take(target, SIZE_MAX));
	CHECK_INT(result.entries, 17);
	CHECK_SHELL("rm -r t");
	stop();
}

TEST(the_reader_goes_away)
{
	int ends[2];

	start();
	CHECK_SHELL("head -c 1000000 /dev/zero >t");
	CHECK_INT(pipe(ends), 0);
	close(ends[0]);
	CHECK(!transfer_send(ends[1], target, false, &result));
	CHECK_INT(result.error, EPIPE);
	CHECK(strstr(result.text, "its receiver is gone"));
	close(ends[1]);
	CHECK(!transfer_send(1, "/no/such/thing", false, &result));
	CHECK_STR(result.text, "/no/such/thing: No such file or directory");
	stop();
}

/* As nobody, in a child: the stream of t, in the script's buffer. */
static void send_as_nobody(bool manifest)
{
	int ends[2];
	pid_t child;
	ssize_t n;

	CHECK_INT(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		close(ends[0]);
		if (setgid(65534) < 0 || setuid(65534) < 0)
			_exit(77);
		_exit(!transfer_send(ends[1], target, manifest, &result));
	}
	close(ends[1]);
	script_init(&s);
	while ((n = read(ends[0], s.w.at, (size_t)(s.w.end - s.w.at))) > 0)
		s.w.at += n;
	close(ends[0]);
	CHECK_INT(waitpid(child, &(int){ 0 }, 0), child);
}

static unsigned count(enum tree_record kind, bool manifest)
{
	static struct tree_reader r;
	struct bytes all = script_bytes(&s);
	struct tree_item item;
	unsigned n = 0;

	tree_reader_init(&r, manifest);
	while (tree_next(&r, &all, &item)) {
		n += item.kind == kind;
		if (item.kind == TREE_FAULT)
			CHECK_INT(item.fault.error, EACCES);
	}
	CHECK_STR(r.wrong, NULL);
	CHECK(tree_complete(&r));
	return n;
}

TEST(what_cannot_be_read)
{
	if (geteuid() != 0)
		SKIP("needs root");
	start();
	CHECK_SHELL("chmod 755 .; mkdir -p t/secret t/open; echo x >t/f; echo x >t/g; echo x "
		    ">t/secret/x;"
		    "chmod 600 t/f; chmod 700 t/secret; echo x >t/open/x");
	for (int manifest = 0; manifest < 2; manifest++) {
		send_as_nobody(manifest);
		CHECK_INT(count(TREE_FAULT, manifest), 2);
		CHECK_INT(count(TREE_ENTRY, manifest), 6);
		CHECK_INT(count(TREE_FILE_END, manifest), 2);
	}
	stop();
}
