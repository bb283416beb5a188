/* SPDX-License-Identifier: Apache-2.0 */
/* Trees between the host's end of the channel and the real agent, both in one file system. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "link/tree.h"
#include "start.h"

#define SOON 60000 /* ms: far more than anything here takes */

static struct loop loop;
static struct session *session;
static pid_t agent;
static struct err err;
static struct tree_report report;
static char dir[64]; /* where everything happens: h of the host, g of the guest */

static void start(void)
{
	strcpy(dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm/tree.XXXXXX" : "/tmp/tree.XXXXXX");
	CHECK(mkdtemp(dir));
	CHECK(loop_init(&loop, false, &err));
	session = session_new(&loop, agent_start(&agent));
	CHECK(session_wait_open(session, clock_in(SOON), &err));
	CHECK_INT(chdir(dir), 0);
}

static void stop(void)
{
	session_free(session);
	CHECK_INT(waitpid(agent, NULL, 0), agent);
	loop_release(&loop);
	CHECK_INT(chdir("/"), 0);
	CHECK(dir_remove(dir, &err));
}

static const char *guest(const char *name)
{
	static char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static bool put(const char *from, const char *to)
{
	return session_put_tree(session, from, guest(to), false, clock_in(SOON), &report, &err);
}

static bool get(const char *from, const char *to)
{
	return session_get_tree(session, guest(from), to, false, clock_in(SOON), &report, &err);
}

static void check_done(bool done)
{
	if (!done)
		printf("# %s\n", err.text);
	CHECK(done);
}

/* It failed, and the sentence holds this. */
static void check_failed(bool done, const char *why)
{
	CHECK(!done);
	if (!strstr(err.text, why))
		printf("# %s\n", err.text);
	CHECK(strstr(err.text, why));
}

/* Same names, types, modes, owners, sizes, times, targets and contents. */
#define LIST(folder)                                                                               \
	"(cd " folder " && find . -printf '%P|%y|%m|%U|%G|%s|%T@|%l\\0' | sed -z "                 \
	"'s/|d\\(|.*|.*|.*|\\)[0-9]*|/|d\\1|/' | sort -z)"
#define SAME(a, b)                                                                                 \
	LIST(a)                                                                                    \
	" >.a; " LIST(b) " >.b; cmp .a .b && "                                                     \
			 "diff -r --no-dereference " a " " b " 2>&1 | "                            \
			 "grep -vE ' is a (fifo|block|character|socket)' | "                       \
			 "{ ! grep . ; }"

static void make_tree(void)
{
	CHECK_SHELL("mkdir h && cd h && mkdir -p a/b/c empty 'odd names' &&"
		    "for m in 0 7 70 700 644 755 1777 4755 2755 6711 7777; do"
		    "  echo $m >f$m; mkdir d$m; echo x >d$m/x; chmod $m f$m d$m; done;"
		    "seq 100000 >a/b/c/numbers; : >a/nothing;"
		    "ln -s nowhere dangling; ln -s /etc/passwd absolute; ln -s loop2 loop1;"
		    "ln -s loop1 loop2; ln -s . self; mkfifo -m 620 fifo;"
		    "cd 'odd names'; printf x >\"$(printf 'new\\nline')\"; printf x >\"$(printf "
		    "'\\001\\177')\";"
		    "printf x >\"$(printf '\\303\\244\\342\\202\\254')\"; printf x >\"$(printf "
		    "'\\377')\";"
		    "printf x >' '; printf x >'-rf'; printf x >'...'; printf x >'a|b'; printf x "
		    ">\"$(printf "
		    "'n%.0s' $(seq 255))\";"
		    "cd ..; touch -d @-1000.25 a/nothing; touch -d @4000000000.123456789 empty;"
		    "touch -h -d @1 dangling");
}

TEST_WITHIN(round_trip, 60)
{
	if (geteuid() != 0)
		SKIP("needs root");
	start();
	make_tree();
	check_done(put("h", "g"));
	CHECK_INT(report.skipped, 0);
	CHECK_SHELL(SAME("h", "g"));
	check_done(get("g", "back"));
	CHECK_SHELL("chmod -R ug-s h");
	CHECK_SHELL(
		"cd h; for m in 4755 2755 6711 7777; do chmod $((m % 1000)) d$m; done; chmod 1777 "
		"d7777");
	CHECK_SHELL(SAME("h", "back"));
	CHECK_INT(report.skipped, 8); /* f and d of four modes */
	CHECK_INT(report.entries, 56);
	stop();
}

TEST(owners_and_devices)
{
	if (geteuid() != 0)
		SKIP("needs root");
	start();
	CHECK_SHELL("mkdir h; echo x >h/f; chown 12345:54321 h/f; ln -s x h/l; chown -h 7:8 h/l;"
		    "mknod h/null c 1 3; mknod h/loop b 7 9; chmod 4711 h/f; chmod 600 h/loop");
	check_done(put("h", "g"));
	CHECK_SHELL(SAME("h", "g"));
	CHECK_SHELL("test \"$(stat -c %t:%T g/null) $(stat -c %t:%T g/loop)\" = '1:3 7:9'");
	check_done(get("g", "back"));
	CHECK_SHELL("test \"$(stat -c %u:%g:%a back/f) $(stat -c %u:%g back/l)\" = "
		    "'12345:54321:711 7:8'");
	CHECK_SHELL("! test -e back/null && ! test -e back/loop");
	CHECK_INT(report.skipped, 3);
	CHECK(report.first_skipped[0]);
	check_failed(get("g/null", "null"), "a device or a socket");
	CHECK_SHELL("test \"$(ls -A)\" = \"$(printf '.a\\n.b\\nback\\ng\\nh')\"");
	stop();
}

TEST(single_things)
{
	start();
	CHECK_SHELL("echo hello >h; ln -s h l");
	check_done(put("h", "deep/down/g"));
	check_done(get("deep/down/g", "back"));
	CHECK_SHELL("cmp h back");
	CHECK_INT(report.entries, 1);
	CHECK_INT(report.bytes, 6);
	check_done(put("l", "link"));
	CHECK_SHELL("test $(readlink link) = h");
	check_done(put("h", "link"));
	CHECK_SHELL("test -f link && ! test -L link");
	stop();
}

TEST_WITHIN(sparse_gigabyte, 60)
{
	int64_t before;

	start();
	CHECK_SHELL(
		"truncate -s 1G h; for at in 0 500 1023; do echo island | dd of=h bs=1M seek=$at "
		"conv=notrunc status=none; done");
	before = clock_ms();
	check_done(put("h", "g"));
	check_done(get("g", "back"));
	CHECK(clock_ms() - before < 10000);
	CHECK_SHELL("test $(stat -c %s back) = 1073741824 && test $(stat -c %b back) -lt 200 && "
		    "test $(stat -c %b g) -lt 200");
	CHECK_SHELL("for at in 0 500 1023; do dd if=back bs=1M skip=$at count=1 status=none | head "
		    "-c 6 | "
		    "grep -q island || exit 1; done");
	stop();
}

TEST_WITHIN(ten_thousand_files, 120)
{
	start();
	CHECK_SHELL("mkdir h; cd h; for d in $(seq 100); do mkdir $d; for f in $(seq 100); do "
		    "echo $d $f >$d/$f; done; done");
	check_done(put("h", "g"));
	check_done(get("g", "back"));
	CHECK_INT(report.entries, 10101);
	CHECK_SHELL(SAME("h", "back"));
	stop();
}

TEST(a_folder_is_merged_into)
{
	start();
	CHECK_SHELL(
		"mkdir -p h/both h/new g/both g/old; echo 1 >h/both/1; echo 2 >g/both/2; echo h "
		">h/f; "
		"echo g >g/f; ln -s /nowhere g/new-link; echo x >h/new-link; chmod 711 g g/both");
	check_done(put("h", "g"));
	CHECK_SHELL("test \"$(cat g/both/1 g/both/2 g/f g/new-link | tr '\\n' ' ')\" = '1 2 h x '");
	CHECK_SHELL("test -d g/old && test -d g/new && ! test -e /nowhere");
	CHECK_SHELL("test $(stat -c %a g/both) = 711");
	stop();
}

TEST(no_link_is_followed)
{
	start();
	CHECK_SHELL("mkdir -p h/sub g out; echo x >h/sub/x; ln -s ../out g/sub");
	check_failed(put("h", "g"), "g/sub: Not a directory");
	CHECK_SHELL("test -z \"$(ls -A out)\"");
	CHECK_SHELL("rm -r h; mkdir h; mkdir h/x; echo >g/x");
	check_failed(put("h", "g"), "g/x: Not a directory");
	CHECK_SHELL("rm -r h; mkdir h; echo >h/y; mkdir g/y");
	check_failed(put("h", "g"), "g/y: Is a directory");
	CHECK_SHELL("test \"$(ls -A g g/y | tr '\\n' ' ')\" = 'g: sub x y  g/y: '");
	stop();
}

TEST(what_is_not_there)
{
	start();
	check_failed(get("nothing", "back"), "nothing: No such file or directory");
	check_failed(put("nothing", "g"), "nothing: No such file or directory");
	CHECK_SHELL("test -z \"$(ls -A)\"; echo x >back; echo y >g");
	check_failed(get("g", "back"), "is there already");
	check_failed(get("g", "no/such/folder"), "No such file or directory");
	CHECK_SHELL("test $(cat back) = x");
	stop();
}

TEST(full_disks)
{
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		SKIP("needs root");
	start();
	CHECK_SHELL("mkdir small h; head -c 4000000 /dev/urandom >h/big; echo x >h/a");
	CHECK_INT(mount("tmpfs", "small", "tmpfs", 0, "size=1m"), 0);
	check_failed(put("h", "small/g"), "big: No space left on device");
	CHECK_SHELL("test -z \"$(find small -name '.part*' -o -name big)\"; rm -r small/*");
	check_failed(get("h", "small/back"), "big: No space left on device");
	CHECK_SHELL("test -z \"$(ls -A small)\"");
	CHECK_INT(umount("small"), 0);
	stop();
}

TEST(mounts_are_not_entered)
{
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		SKIP("needs root");
	start();
	CHECK_SHELL("mkdir -p g/m g/same other; echo x >other/x; mount -t tmpfs none g/m; echo x "
		    ">g/m/x; "
		    "mount --bind other g/same");
	check_done(get("g", "back"));
	CHECK_SHELL("test \"$(find back | sort | tr '\\n' ' ')\" = 'back back/m back/same '");
	check_done(get("g/m", "mount"));
	CHECK_SHELL("test -f mount/x");
	check_done(put("g", "copy"));
	CHECK_SHELL("test \"$(find copy | sort | tr '\\n' ' ')\" = 'copy copy/m copy/same '");
	CHECK_SHELL("umount g/m g/same");
	stop();
}

/* Names come, go and are swapped; files grow and shrink. Any end is fine but a hang or a crash. */
TEST_WITHIN(a_folder_that_is_being_changed, 60)
{
	pid_t child;

	start();
	CHECK_SHELL("mkdir -p g/d");
	child = fork();
	if (child == 0) {
		execl("/bin/sh", "sh", "-c",
			"cd g; while :; do echo x >a; mkdir e; seq 5000 >d/n; mv a d/; ln -s /etc "
			"e/l; "
			": >d/n; rm -rf e d/a; mv d e; ln -s e d; rm d; mv e d; done 2>/dev/null",
			(char *)NULL);
		_exit(1);
	}
	for (int i = 0; i < 50; i++) {
		(void)get("g", "back");
		CHECK(session_is_open(session));
		CHECK_SHELL("rm -rf back; test -z \"$(ls -A | grep part)\"");
	}
	kill(child, SIGKILL);
	CHECK_INT(waitpid(child, NULL, 0), child);
	stop();
}

TEST(a_deadline_leaves_nothing)
{
	start();
	CHECK_SHELL("mkfifo p; mkdir h; head -c 60000000 /dev/zero >h/big");
	CHECK(!session_get_tree(session, guest("h"), "back", false, clock_in(1), &report, &err));
	CHECK_INT(err.code, ERR_TIME);
	CHECK(!session_put_tree(session, "h", guest("g"), false, clock_in(1), &report, &err));
	CHECK_INT(err.code, ERR_TIME);
	check_done(put("p", "p2")); /* what was cancelled is over, and the session lives */
	CHECK_SHELL("for i in $(seq 100); do test -z \"$(find . -name '.part*')\" && exit 0; "
		    "read -t 0.1 _ <>p; done; exit 1");
	CHECK_SHELL("! test -e back");
	stop();
}

TEST(files_that_do_not_know_their_size)
{
	start();
	check_done(session_get_tree(
		session, "/proc/version", "back", false, clock_in(SOON), &report, &err));
	CHECK_SHELL("cmp back /proc/version");
	if (access("/proc/kallsyms", R_OK) == 0)
		check_failed(session_get_tree(session, "/proc/kallsyms", "syms", false,
				     clock_in(SOON), &report, &err),
			"File too large");
	stop();
}

TEST(depth)
{
	start();
	CHECK_SHELL("p=h; for i in $(seq 512); do p=$p/d; done; mkdir -p $p; echo x >${p%/d}/f");
	check_done(put("h", "g"));
	check_done(get("g", "back"));
	CHECK_INT(report.entries, 514);
	CHECK_SHELL("p=h; for i in $(seq 512); do p=$p/d; done; echo x >$p/f");
	check_failed(put("h", "g2"), "deeper than what can be copied");
	check_failed(get("h", "back2"), "File name too long");
	stop();
}

/* What a walk told. */
struct listing {
	char text[8192];
	size_t len;
	unsigned stop_after;
};

static void add(struct listing *l, const char *text, size_t len)
{
	CHECK(l->len + len < sizeof(l->text));
	memcpy(l->text + l->len, text, len);
	l->len += len;
}

static bool list_item(void *self, const struct tree_item *item)
{
	struct listing *l = self;
	struct reader xattrs;
	struct bytes name, value;
	char hex[65];

	switch (item->kind) {
	case TREE_ENTRY:
		add(l, (const char *)&(char){ (char)item->entry.type }, 1);
		add(l, " ", 1);
		add(l, (const char *)item->entry.path.data, item->entry.path.len);
		xattrs = reader_of(item->entry.xattrs);
		while (tree_xattr_next(&xattrs, &name, &value)) {
			add(l, " ", 1);
			add(l, (const char *)name.data, name.len);
		}
		break;
	case TREE_FILE_END:
		for (int i = 0; i < 32; i++)
			(void)snprintf(hex + 2 * i, 3, "%02x", item->sha256[i]);
		add(l, hex, 64);
		break;
	case TREE_FAULT:
		add(l, hex, (size_t)snprintf(hex, sizeof(hex), "fault %d", item->fault.error));
		break;
	default:
		CHECK(!"another kind");
	}
	add(l, "\n", 1);
	return !l->stop_after || --l->stop_after;
}

#define HASH_X	   "73cb3858a687a8494ca3323053016282f3dad39d42cf62ca4e79dda2aac7d9ac"
#define HASH_ZEROS "30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58"

TEST(walk)
{
	struct listing l = { 0 };

	start();
	CHECK_SHELL("mkdir g; echo x >g/x");
	CHECK(session_walk(session, guest("g"), false, list_item, &l, clock_in(SOON), &err));
	CHECK_STR(l.text, "d \nf x\n" HASH_X "\n");
	l = (struct listing){ 0 };
	CHECK_SHELL("rm g/x; truncate -s 1M g/zeros");
	CHECK(session_walk(session, guest("g"), false, list_item, &l, clock_in(SOON), &err));
	CHECK_STR(l.text, "d \nf zeros\n" HASH_ZEROS "\n");
	l = (struct listing){ .stop_after = 1 };
	CHECK(!session_walk(session, guest("g"), false, list_item, &l, clock_in(SOON), &err));
	CHECK_INT(err.code, ERR_INTERRUPTED);
	l = (struct listing){ 0 };
	CHECK_SHELL("truncate -s 1T g/zeros");
	CHECK(session_walk(session, guest("g"), false, list_item, &l, clock_in(SOON), &err));
	CHECK_STR(l.text, "d \nf zeros\nfault 27\n");
	check_failed(session_walk(session, guest("no"), false, list_item, &l, clock_in(SOON), &err),
		"No such file");
	stop();
}

TEST(extended_attributes)
{
	struct listing l = { 0 };
	static char big[9000];

	start();
	CHECK_SHELL("echo x >g; ln -s nowhere link");
	if (setxattr("g", "trusted.z", "1", 1, 0) < 0 ||
		setxattr("g", "trusted.a", "2", 1, 0) < 0) {
		stop();
		SKIP("no extended attributes here");
	}
	CHECK(session_walk(session, guest("g"), false, list_item, &l, clock_in(SOON), &err));
	CHECK_STR(l.text, "f  trusted.a trusted.z\n" HASH_X "\n");
	CHECK_INT(setxattr("g", "trusted.big", big, sizeof(big), 0), 0);
	l = (struct listing){ 0 };
	CHECK(session_walk(session, guest("g"), false, list_item, &l, clock_in(SOON), &err));
	CHECK_STR(l.text, "fault 7\nf \n" HASH_X "\n");
	l = (struct listing){ 0 };
	CHECK_INT(lsetxattr("link", "trusted.l", "", 0, 0), 0);
	CHECK(session_walk(session, guest("link"), false, list_item, &l, clock_in(SOON), &err));
	CHECK_STR(l.text, "l  trusted.l\n");
	stop();
}
