/* SPDX-License-Identifier: Apache-2.0 */
/* Trees to and from the guest, and the freeze where there is nothing to freeze. */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "credit.h"
#include "sha256.h"
#include "treestream.h"

static struct peer p;
static char dir[32], path[64], deep[64];
static uint8_t stream[1 << 20];
static struct writer out;

#define CONTROL stream_of(1, PART_CONTROL)
#define TAIL	52 /* bytes of a stream from inside the content on */

static void set_up(void)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/pair-XXXXXX");
	CHECK(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/file", dir);
	(void)snprintf(deep, sizeof(deep), "%s/a/b/file", dir);
	peer_open(&p);
}

/* Nothing but what the test removed itself, or what these folders are, may be left. */
static void tear_down(void)
{
	peer_stop(&p);
	(void)unlink(path);
	(void)unlink(deep);
	*strrchr(deep, '/') = '\0';
	(void)rmdir(deep);
	*strrchr(deep, '/') = '\0';
	(void)rmdir(deep);
	CHECK(rmdir(dir) == 0);
}

static void begin_file(uint32_t mode, uint64_t size)
{
	out = writer_of(stream, sizeof(stream));
	put_tree_entry(&out, &(struct tree_entry){ .type = TREE_FILE,
				     .mode = mode,
				     .uid = geteuid(),
				     .gid = getegid(),
				     .mtime_s = 1000000000,
				     .size = size });
}

static void end_file(struct sha256 *hash)
{
	uint8_t sum[SHA256_SIZE];

	sha256_end(hash, sum);
	put_tree_file_end(&out, sum);
	put_tree_end(&out, 1);
	CHECK(!out.bad);
}

/* A stream of one file with these bytes; returns how long it is. */
static size_t file_stream(uint32_t mode, const void *data, size_t len)
{
	struct sha256 hash;

	sha256_init(&hash);
	sha256_add(&hash, data, len);
	begin_file(mode, len);
	for (size_t at = 0; at < len; at += TREE_EXTENT_MAX) {
		size_t n = len - at < TREE_EXTENT_MAX ? len - at : TREE_EXTENT_MAX;

		put_tree_extent(
			&out, &(struct tree_extent){ at, bytes_of((const char *)data + at, n) });
	}
	end_file(&hash);
	return (size_t)(out.at - stream);
}

static void put(const char *to)
{
	PEER_SEND(&p, PUT, put, CONTROL, .path = bytes_str(to));
	peer_expect_started(&p, 1);
}

static void get(const char *from, unsigned flags)
{
	PEER_SEND(&p, GET, get, CONTROL, .flags = (uint16_t)flags, .path = bytes_str(from));
	peer_expect_started(&p, 1);
}

static struct msg_done expect_done(void)
{
	struct msg_done m;

	CHECK(get_done(peer_expect(&p, MSG_DONE, CONTROL).body, &m));
	return m;
}

/* Feeds a stream within credit. False: FAILED came. */
static bool feed_all(const uint8_t *data, size_t len, unsigned flags)
{
	uint32_t credit = STREAM_WINDOW;
	struct msg_credit m;

	for (size_t at = 0; at < len;) {
		size_t n = len - at < BULK_CHUNK ? len - at : BULK_CHUNK;
		struct frame f;

		if (credit >= n) {
			peer_feed(&p, 1, data + at, n, at + n == len ? flags : 0);
			credit -= (uint32_t)n;
			at += n;
			continue;
		}
		f = peer_next(&p);
		if (f.type == MSG_FAILED)
			return false;
		CHECK_STR(message_name(f.type), "CREDIT");
		CHECK(get_credit(f.body, &m) && credit_grant(&credit, m.bytes));
	}
	return true;
}

static struct frame skip_credit(void)
{
	struct frame f;

	do {
		f = peer_next(&p);
	} while (f.type == MSG_CREDIT);
	return f;
}

static void check_file(const char *name, const void *want, size_t size, mode_t mode)
{
	char got[256];
	struct stat st;
	int fd = open(name, O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK(fstat(fd, &st) == 0);
	CHECK_INT(st.st_size, size);
	CHECK_INT(st.st_mode & 07777, mode);
	CHECK(size <= sizeof(got) && read(fd, got, sizeof(got)) == (ssize_t)size);
	CHECK_MEM(got, want, size);
	close(fd);
}

TEST(file_arrives_exactly)
{
	size_t len = file_stream(04751, "a\0\n\xff__", 6);
	struct msg_done done;

	set_up();
	put(deep);
	peer_feed(&p, 1, stream, len - 3, 0);
	CHECK(access(deep, F_OK) < 0);
	peer_feed(&p, 1, stream + len - 3, 3, FRAME_EOF);
	done = expect_done();
	CHECK_INT(done.entries, 1);
	CHECK_INT(done.bytes, len);
	check_file(deep, "a\0\n\xff__", 6, 04751);
	/* Asked again it says so again, until acknowledged. */
	PEER_SEND(&p, PUT, put, CONTROL, .path = bytes_str(deep));
	(void)expect_done();
	peer_tell(&p, MSG_ACK, 1);
	len = file_stream(0600, "", 0);
	put(deep);
	peer_feed(&p, 1, stream, len, FRAME_EOF);
	(void)expect_done();
	check_file(deep, "", 0, 0600);
	tear_down();
}

/* Takes the whole stream of a GET, granting what it takes. Returns its length. */
static size_t take_stream(struct msg_done *ret_done)
{
	size_t len = 0;
	bool ended = false;

	for (;;) {
		struct frame f = peer_next(&p);

		if (f.type == MSG_DONE) {
			CHECK(ended);
			CHECK(get_done(f.body, ret_done));
			return len;
		}
		CHECK_STR(message_name(f.type), "DATA");
		CHECK_INT(f.stream, stream_of(1, PART_STDOUT));
		CHECK(!ended && len + f.body.len <= sizeof(stream));
		memcpy(stream + len, f.body.data, f.body.len);
		len += f.body.len;
		ended = f.flags & FRAME_EOF;
		if (f.body.len)
			PEER_SEND(&p, CREDIT, credit, f.stream, .bytes = (uint32_t)f.body.len);
	}
}

TEST_WITHIN(large_file_there_and_back, 60)
{
	static uint8_t content[900000];
	static struct tree_reader r;
	struct bytes data;
	struct tree_item item;
	struct msg_done done;
	size_t len, got = 0;

	for (size_t i = 0; i < sizeof(content); i++)
		content[i] = (uint8_t)(i * 7 + i / 251);
	len = file_stream(0644, content, sizeof(content));
	set_up();
	put(path);
	CHECK(feed_all(stream, len, FRAME_EOF));
	CHECK_STR(message_name(skip_credit().type), "DONE");
	peer_tell(&p, MSG_ACK, 1);
	get(path, 0);
	len = take_stream(&done);
	CHECK_INT(done.bytes, len);
	tree_reader_init(&r, false);
	data = bytes_of(stream, len);
	while (tree_next(&r, &data, &item)) {
		if (item.kind != TREE_EXTENT)
			continue;
		CHECK_INT(item.extent.offset, got);
		CHECK_MEM(item.extent.data.data, content + got, item.extent.data.len);
		got += item.extent.data.len;
	}
	CHECK(tree_complete(&r));
	CHECK_INT(got, sizeof(content));
	peer_tell(&p, MSG_ACK, 1);
	tear_down();
}

TEST(manifest_of_a_folder)
{
	static struct tree_reader r;
	struct bytes data;
	struct tree_item item;
	struct msg_done done;
	int entries = 0;

	set_up();
	CHECK(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0640)) == 0);
	get(dir, TREE_MANIFEST);
	data = bytes_of(stream, take_stream(&done));
	tree_reader_init(&r, true);
	while (tree_next(&r, &data, &item))
		entries += item.kind == TREE_ENTRY;
	CHECK(tree_complete(&r));
	CHECK_INT(entries, 2);
	CHECK_INT(done.entries, 2);
	tear_down();
}

TEST(torn_and_wrong_streams)
{
	size_t len = file_stream(0644, "content", 7);

	set_up();
	put(path);
	peer_feed(&p, 1, stream, len - TAIL, FRAME_EOF);
	peer_expect_failed(&p, 1, FAIL_FILE);
	put(path);
	peer_feed(&p, 1, "nothing of a tree", 17, 0);
	peer_feed(&p, 1, "late", 4, FRAME_EOF);
	peer_expect_failed(&p, 1, FAIL_FILE);
	put(path);
	peer_feed(&p, 1, "", 0, FRAME_EOF);
	peer_expect_failed(&p, 1, FAIL_FILE);
	peer_expect_quiet(&p);
	CHECK(access(path, F_OK) < 0);
	tear_down();
}

TEST(what_cannot_be)
{
	size_t len = file_stream(0644, "x", 1);

	set_up();
	put("/proc/no/such");
	peer_feed(&p, 1, stream, len, FRAME_EOF);
	peer_expect_failed(&p, 1, FAIL_FILE);
	get("/no/such/file", 0);
	for (;;) {
		struct frame f = peer_next(&p);

		if (f.type == MSG_FAILED)
			break;
		CHECK_STR(message_name(f.type), "DATA");
	}
	peer_expect_quiet(&p);
	tear_down();
}

TEST(cancelled_and_abandoned_files_leave_nothing)
{
	struct msg_failed m;
	size_t len = file_stream(0644, "content", 7);

	set_up();
	put(path);
	peer_feed(&p, 1, stream, len - TAIL, 0);
	peer_tell(&p, MSG_CANCEL, 1);
	CHECK(get_failed(peer_expect(&p, MSG_FAILED, CONTROL).body, &m));
	CHECK_INT(m.error, ECANCELED);
	CHECK(rmdir(dir) == 0 && mkdir(dir, 0700) == 0);
	put(path);
	peer_feed(&p, 1, stream, len - TAIL, 0);
	peer_attach(&p);
	CHECK_INT(peer_query(&p, 1).state, STATUS_UNKNOWN);
	put(path);
	peer_feed(&p, 1, stream, len - TAIL, 0);
	peer_hello(&p);
	peer_expect_quiet(&p);
	/* They clean up by themselves. */
	peer_check_shell(
		&p, 1, "while pgrep -P $PPID postern-agent >/dev/null; do sleep 0.01; done", 0, "");
	CHECK(access(path, F_OK) < 0);
	tear_down();
}

/* A GET that nobody reads waits, and can be cancelled. */
TEST(get_without_credit)
{
	struct msg_failed m;
	size_t got = 0;

	set_up();
	CHECK(truncate(path, 0) < 0);
	get("/usr/bin", 0);
	while (got < STREAM_WINDOW)
		got += peer_expect(&p, MSG_DATA, stream_of(1, PART_STDOUT)).body.len;
	peer_expect_quiet(&p);
	peer_check_shell(&p, 2, "echo others go on", 0, "others go on\n");
	peer_tell(&p, MSG_CANCEL, 1);
	CHECK(get_failed(peer_expect(&p, MSG_FAILED, CONTROL).body, &m));
	CHECK_INT(m.error, ECANCELED);
	peer_tell(&p, MSG_CANCEL, 1);
	peer_expect_quiet(&p);
	tear_down();
}

/* A manifest of holes writes nothing for long, so that it does not meet the end of its pipe. */
static int start_silent_get(void)
{
	struct msg_started m;
	int pidfd;

	CHECK(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0);
	CHECK(truncate(path, 4LL << 30) == 0);
	PEER_SEND(&p, GET, get, CONTROL, .flags = TREE_MANIFEST, .path = bytes_str(path));
	CHECK(get_started(peer_expect(&p, MSG_STARTED, CONTROL).body, &m));
	pidfd = (int)syscall(SYS_pidfd_open, m.pid, 0);
	CHECK(pidfd >= 0);
	return pidfd;
}

static void check_gone(int pidfd)
{
	CHECK(poll(&(struct pollfd){ .fd = pidfd, .events = POLLIN }, 1, 3000) == 1);
	close(pidfd);
}

TEST(a_get_that_says_nothing_ends_with_its_operation)
{
	struct msg_failed m;
	int child;

	set_up();
	child = start_silent_get();
	peer_attach(&p);
	check_gone(child);
	child = start_silent_get();
	peer_hello(&p);
	check_gone(child);
	child = start_silent_get();
	peer_tell(&p, MSG_CANCEL, 1);
	check_gone(child);
	CHECK(get_failed(peer_expect(&p, MSG_FAILED, CONTROL).body, &m));
	CHECK_INT(m.error, ECANCELED);
	tear_down();
}

TEST(an_id_is_taken_once)
{
	set_up();
	peer_shell(&p, 1, 0, "exec sleep 1000");
	PEER_SEND(&p, GET, get, CONTROL, .path = bytes_str("/etc"));
	peer_expect_failed(&p, 1, FAIL_BUSY);
	peer_expect_quiet(&p);
	tear_down();
}

/* Looks for bytes in what the agent has in memory. */
static bool remembers(const void *secret, size_t len)
{
	char name[64], line[256];
	static uint8_t page[1 << 16];
	bool found = false;
	FILE *maps;
	int mem;

	(void)snprintf(name, sizeof(name), "/proc/%d/mem", p.pid);
	mem = open(name, O_RDONLY | O_CLOEXEC);
	(void)snprintf(name, sizeof(name), "/proc/%d/maps", p.pid);
	maps = fopen(name, "re");
	CHECK(mem >= 0 && maps);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long from, to;

		/* What is larger is a sanitizer's shadow, which holds no content. */
		if (sscanf(line, "%lx-%lx rw", &from, &to) != 2 || to - from > 1ul << 30)
			continue;
		for (; from < to; from += sizeof(page) / 2) {
			ssize_t n = pread(mem, page, sizeof(page), (off_t)from);

			if (n > 0 && memmem(page, (size_t)n, secret, len))
				found = true;
		}
	}
	fclose(maps);
	close(mem);
	return found;
}

TEST(a_put_leaves_no_trace_in_the_agent)
{
	static char content[100000];
	char secret[32];
	size_t len;

	/* A sanitized agent is dynamic: to find a function late puts registers on the stack. */
	setenv("LD_BIND_NOW", "1", 1);
	set_up();
	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = (char)('A' + (i * 11 + (size_t)p.pid) % 26);
	for (size_t i = 0; i + sizeof(secret) <= sizeof(content); i += sizeof(secret))
		memcpy(content + i, secret, sizeof(secret));
	/* What a command was given is not secret: the search works. */
	peer_shell(&p, 1, EXEC_STDIN, "exec sleep 1000");
	for (int i = 0; i < 2; i++)
		peer_feed(&p, 1, content, 65536, 0);
	CHECK_STR(message_name(peer_next(&p).type), "CREDIT");
	CHECK(remembers(secret, sizeof(secret)));
	peer_hello(&p);
	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] ^= 0x15;
	for (size_t i = 0; i + sizeof(secret) <= sizeof(content); i += sizeof(secret))
		memcpy(content + i, secret, sizeof(secret));
	len = file_stream(0600, content, sizeof(content));
	put(path);
	CHECK(feed_all(stream, len, FRAME_EOF));
	CHECK_STR(message_name(skip_credit().type), "DONE");
	peer_expect_quiet(&p);
	CHECK(!remembers(secret, sizeof(secret)));
	tear_down();
}

TEST(nothing_to_freeze)
{
	struct msg_prepared m;
	struct msg_healed healed;

	peer_open(&p);
	peer_shell(&p, 1, 0, "exec sleep 1000");
	PEER_SEND(&p, PREPARE, prepare, 0, .deadline_ms = 1000);
	CHECK(get_prepared(peer_expect(&p, MSG_PREPARED, 0).body, &m));
	CHECK_INT(m.error, EOPNOTSUPP);
	CHECK_INT(m.running, 1);
	/* It failed, so commands go on. */
	peer_check_shell(&p, 2, "echo on", 0, "on\n");
	PEER_SEND(&p, HEAL, heal, 0, .realtime_ns = 0);
	CHECK(get_healed(peer_expect(&p, MSG_HEALED, 0).body, &healed));
	CHECK_INT(healed.error, 0);
	peer_stop(&p);
}
