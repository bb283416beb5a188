/* SPDX-License-Identifier: Apache-2.0 */
/* What a hostile stream does to a host that receives it: nothing outside, nothing half done. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "link/tree_receive.h"
#include "link/tree_send.h"
#include "test.h"
#include "tree_script.h"

static struct script s;
static struct err err;
static struct tree_report report;
static char dir[32];

static void start(void)
{
	strcpy(dir, "/tmp/tree.XXXXXX");
	CHECK(mkdtemp(dir));
	CHECK_INT(chdir(dir), 0);
	script_init(&s);
}

static void stop(void)
{
	CHECK_INT(chdir("/"), 0);
	CHECK(dir_remove(dir, &err));
}

static bool receive(const char *path, size_t step)
{
	struct bytes all = script_bytes(&s);
	struct tree_sink *sink = tree_sink_new(path, false, &err);
	bool ok = sink != NULL;

	for (size_t at = 0, n; ok && at < all.len; at += n) {
		n = all.len - at < step ? all.len - at : step;
		ok = tree_sink_take(sink, bytes_of(all.data + at, n), &err);
	}
	ok = ok && tree_sink_finish(sink, &report, &err);
	tree_sink_free(sink);
	return ok;
}

/* It fails with this, and leaves nothing. */
static void refused(const char *why)
{
	CHECK(!receive("t", 1000));
	if (!strstr(err.text, why))
		printf("# %s\n", err.text);
	CHECK(strstr(err.text, why));
	CHECK_SHELL("test -z \"$(ls -A | grep -v out)\" && test -z \"$(ls -A out 2>/dev/null)\"");
}

TEST(whole_or_not_at_all)
{
	start();
	script_folder(&s, "");
	script_folder(&s, "d");
	script_text(&s, "d/f", "hello");
	script_link(&s, "d/l", "/etc/passwd");
	refused("without an end");
	script_end(&s);
	for (size_t step = 1; step < 300; step = step * 3 + 1) {
		CHECK(receive("t", step));
		CHECK_SHELL("test $(cat t/d/f) = hello && test $(readlink t/d/l) = /etc/passwd && "
			    "rm -r t");
	}
	CHECK_INT(report.entries, 4);
	CHECK_INT(report.bytes, 5);
	CHECK_SHELL("test -z \"$(ls -A)\"");
	stop();
}

/* As many descriptors as it takes to make a tree are enough to remove it. */
TEST(the_deepest_is_removed_again)
{
	const struct rlimit tight = { TREE_DEPTH_MAX + 24, TREE_DEPTH_MAX + 24 };
	char path[2 * TREE_DEPTH_MAX + 2] = "";

	start();
	CHECK_INT(setrlimit(RLIMIT_NOFILE, &tight), 0);
	script_folder(&s, "");
	for (size_t i = 0; i < TREE_DEPTH_MAX; i++) {
		strcpy(path + 2 * i, "d");
		script_folder(&s, path);
		strcpy(path + 2 * i + 1, "/");
	}
	refused("without an end");
	stop();
}

TEST(links_lead_nowhere)
{
	start();
	CHECK_SHELL("mkdir out");
	script_folder(&s, "");
	script_link(&s, "out", "../out");
	script_text(&s, "out/f", "x");
	refused("folder did not come before");
	/* A link in the place of a folder that came. */
	script_init(&s);
	script_folder(&s, "");
	script_folder(&s, "out");
	script_link(&s, "out", "../out");
	script_text(&s, "out/f", "x");
	refused("out: File exists");
	/* And the other way round. */
	script_init(&s);
	script_folder(&s, "");
	script_link(&s, "out", "../out");
	script_folder(&s, "out");
	script_text(&s, "out/f", "x");
	refused("out: File exists");
	/* A file through a link. */
	script_init(&s);
	script_folder(&s, "");
	script_link(&s, "f", "../out/f");
	script_text(&s, "f", "x");
	refused("f: File exists");
	/* The top itself. */
	script_init(&s);
	script_link(&s, "", "out");
	script_text(&s, "f", "x");
	refused("folder did not come before");
	stop();
}

TEST(the_same_path_twice)
{
	start();
	for (int first = 0; first < 2; first++) {
		for (int second = 0; second < 2; second++) {
			script_init(&s);
			script_folder(&s, "");
			if (first)
				script_folder(&s, "d");
			else
				script_text(&s, "d", "1");
			if (second)
				script_folder(&s, "d");
			else
				script_text(&s, "d", "2");
			refused("d: File exists");
		}
	}
	stop();
}

TEST(paths_that_lead_out)
{
	static const char *const paths[] = { "../out/f", "/tmp/f", "d/../../out/f", "..", "." };

	start();
	CHECK_SHELL("mkdir out");
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		script_init(&s);
		script_folder(&s, "");
		script_folder(&s, "d");
		script_text(&s, paths[i], "x");
		refused("a path that is not allowed");
	}
	stop();
}

TEST(faults)
{
	start();
	script_folder(&s, "");
	script_file(&s, "f", 10);
	script_extent(&s, 0, "x", 1);
	script_fault(&s, EIO, "f");
	refused("the guest can't read f: Input/output error");
	script_init(&s);
	script_folder(&s, "");
	script_fault(&s, EIO, "\x1b[31m\n");
	refused("can't read ?[31m?: Input");
	stop();
}

TEST(nothing_that_could_harm)
{
	struct tree_entry m = script_entry(TREE_FILE, "suid");

	start();
	script_folder(&s, "");
	m.mode = 06755;
	m.uid = geteuid();
	m.gid = getegid();
	script_add(&s, &m);
	script_file_end(&s, 0);
	m = script_entry(TREE_BLOCK, "disk");
	m.mode = 0666;
	m.major = 8;
	script_add(&s, &m);
	m = script_entry(TREE_SOCKET, "socket");
	script_add(&s, &m);
	m = script_entry(TREE_DIRECTORY, "folder");
	m.mode = 02777;
	script_add(&s, &m);
	m = script_entry(TREE_FIFO, "fifo");
	script_add(&s, &m);
	script_end(&s);
	CHECK(receive("t", 7));
	CHECK_SHELL(
		"test \"$(stat -c %a t/suid)\" = 755 && test \"$(stat -c %a t/folder)\" = 777 && "
		"test -p t/fifo && test \"$(ls t | wc -l)\" = 3");
	CHECK_INT(report.skipped, geteuid() == 0 ? 4 : 6);
	script_init(&s);
	m = script_entry(TREE_SOCKET, "");
	script_add(&s, &m);
	script_end(&s);
	CHECK_SHELL("rm -r t");
	refused("a device or a socket");
	stop();
}

TEST(sizes_that_the_host_does_not_have)
{
	const struct rlimit small = { 4096, 4096 };

	start();
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &small), 0);
	CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	script_folder(&s, "");
	script_file(&s, "f", INT64_MAX);
	script_file_end(&s, INT64_MAX);
	script_end(&s);
	refused("f: File too large");
	stop();
}

TEST(modes_that_keep_us_out)
{
	struct tree_entry m = script_entry(TREE_DIRECTORY, "");

	start();
	m.mode = 0;
	m.uid = geteuid();
	m.gid = getegid();
	script_add(&s, &m);
	m.path = bytes_str("d");
	script_add(&s, &m);
	script_text(&s, "d/f", "x");
	script_folder(&s, "e");
	refused("without an end");
	script_end(&s);
	CHECK(receive("t", 100));
	CHECK_SHELL(
		"test $(stat -c %a t) = 0; chmod 700 t; test $(stat -c %a t/d) = 0; chmod 700 t/d");
	stop();
}

TEST(targets)
{
	start();
	script_text(&s, "", "x");
	script_end(&s);
	CHECK_SHELL("echo 1 >file; mkdir folder; ln -s nowhere link");
	CHECK(!receive("file", 100));
	CHECK(!receive("folder/", 100));
	CHECK(!receive("link", 100));
	CHECK(!receive("", 100));
	CHECK(!receive("none/x", 100));
	CHECK(receive("folder/x", 100));
	CHECK(receive("y//", 100));
	CHECK_SHELL("test $(cat file) = 1 && test $(cat folder/x) = x && test $(cat y) = x && "
		    "test \"$(ls -A . folder | wc -l)\" = 8");
	stop();
}

/* A tree of one entry, made at path where something may be. */
static bool make_over(const char *source, const char *path)
{
	struct tree_source *from = tree_source_new(source, &err);
	struct tree_sink *sink = from ? tree_sink_new(path, true, &err) : NULL;
	struct bytes record = { 0 };
	bool ok = sink;

	do {
		ok = ok && tree_source_next(from, &record, &err) &&
		     tree_sink_take(sink, record, &err);
	} while (ok && record.len);
	ok = ok && tree_sink_finish(sink, &report, &err);
	tree_source_free(from);
	tree_sink_free(sink);
	return ok;
}

TEST(a_file_replaces_files_alone)
{
	start();
	CHECK_SHELL("echo new >new; mkdir h d; echo old >old; ln -s old link; ln -s no dangling; "
		    "mkfifo fifo; echo x >h/x");
	CHECK(make_over("new", "old"));
	CHECK(make_over("new", "none"));
	CHECK_SHELL("cmp new old; cmp new none; echo older >old");
	for (size_t i = 0; i < 4; i++) {
		CHECK(!make_over("new", ((const char *[]){ "link", "dangling", "fifo", "d" })[i]));
		CHECK(strstr(err.text, "is there already"));
	}
	CHECK(!make_over("h", "old"));
	CHECK_STR(err.text, "a folder came, and old is a file: choose another name");
	CHECK_SHELL("test \"$(cat old link)\" = \"$(printf 'older\\nolder')\"; test -L dangling; "
		    "test -p fifo; test -z \"$(ls -A d; ls -A | grep part)\"");
	stop();
}

/* What the sender makes of a folder, the receiver makes the same folder of. */
TEST(sender_and_receiver)
{
	struct tree_source *source;
	struct tree_sink *sink;
	struct bytes record;

	start();
	CHECK_SHELL(
		"mkdir -p h/a/b h/c; seq 20000 >h/a/b/n; : >h/z; ln -s a h/l; mkfifo h/p; "
		"truncate -s 1G h/holes; printf x | dd of=h/holes bs=1 seek=500000000 conv=notrunc "
		"status=none");
	source = tree_source_new("h", &err);
	sink = tree_sink_new("t", false, &err);
	CHECK(source && sink);
	do {
		CHECK(tree_source_next(source, &record, &err));
		CHECK(tree_sink_take(sink, record, &err));
	} while (record.len);
	CHECK(tree_sink_finish(sink, &report, &err));
	CHECK_INT(report.entries, tree_source_entries(source));
	CHECK_INT(report.bytes, tree_source_bytes(source));
	tree_source_free(source);
	tree_sink_free(sink);
	CHECK_SHELL("rm h/holes; test $(stat -c %b t/holes) -lt 64; test $(stat -c %s t/holes) = "
		    "1073741824;"
		    "rm t/holes; diff -r --no-dereference h t | { ! grep -v 'is a fifo'; }");
	CHECK(!tree_source_new("nothing", &err));
	CHECK_STR(err.text, "nothing: No such file or directory");
	stop();
}
