/* SPDX-License-Identifier: Apache-2.0 */
/* Files to the guest, and the freeze where there is nothing to freeze. */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct peer p;
static char dir[32], path[64], deep[64];

#define CONTROL stream_of(1, PART_CONTROL)

static void set_up(void)
{
	strcpy(dir, "/tmp/pair-XXXXXX");
	CHECK(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/file", dir);
	(void)snprintf(deep, sizeof(deep), "%s/a/b/file", dir);
	peer_open(&p);
}

static void tear_down(void)
{
	char part[80];

	peer_stop(&p);
	(void)snprintf(part, sizeof(part), "%s.part", path);
	CHECK(access(part, F_OK) < 0);
	(void)unlink(path);
	(void)unlink(deep);
	*strrchr(deep, '/') = '\0';
	(void)rmdir(deep);
	*strrchr(deep, '/') = '\0';
	(void)rmdir(deep);
	CHECK(rmdir(dir) == 0);
}

static void put(const char *to, uint32_t mode, uint64_t size)
{
	PEER_SEND(&p, PUT, put, CONTROL, .mode = mode, .size = size, .path = bytes_str(to));
}

static void data(const void *bytes, size_t len, unsigned flags)
{
	peer_send_flags(&p, MSG_DATA, stream_of(1, PART_STDIN), flags, bytes_of(bytes, len));
}

static void expect_done(uint64_t size)
{
	struct msg_put_done m;

	CHECK(get_put_done(peer_expect(&p, MSG_PUT_DONE, CONTROL).body, &m));
	CHECK_INT(m.size, size);
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
	set_up();
	put(deep, 04751, 6);
	peer_expect(&p, MSG_STARTED, CONTROL);
	data("a\0\n", 3, 0);
	CHECK(access(deep, F_OK) < 0);
	data("\xff"
	     "bc",
		3, FRAME_EOF);
	expect_done(6);
	check_file(deep,
		"a\0\n\xff"
		"bc",
		6, 04751);
	/* Asked again it says so again, until acknowledged. */
	put(deep, 04751, 6);
	expect_done(6);
	peer_send(&p, MSG_ACK, CONTROL, bytes_of(NULL, 0));
	put(deep, 0600, 0);
	peer_expect(&p, MSG_STARTED, CONTROL);
	data(NULL, 0, FRAME_EOF);
	expect_done(0);
	check_file(deep, "", 0, 0600);
	tear_down();
}

TEST_WITHIN(large_file, 60)
{
	static uint8_t chunk[BULK_CHUNK];
	size_t chunks = 200;
	uint32_t credit = STREAM_WINDOW;
	struct stat st;

	set_up();
	put(path, 0644, chunks * sizeof(chunk));
	peer_expect(&p, MSG_STARTED, CONTROL);
	for (size_t i = 0; i < chunks; i++) {
		while (credit < sizeof(chunk)) {
			struct msg_credit m;

			CHECK(get_credit(
				peer_expect(&p, MSG_CREDIT, stream_of(1, PART_STDIN)).body, &m));
			credit += m.bytes;
		}
		memset(chunk, (int)i, sizeof(chunk));
		data(chunk, sizeof(chunk), i + 1 == chunks ? FRAME_EOF : 0);
		credit -= (uint32_t)sizeof(chunk);
	}
	for (;;) {
		struct frame f = peer_next(&p);

		if (f.type == MSG_PUT_DONE)
			break;
		CHECK_STR(message_name(f.type), "CREDIT");
	}
	CHECK(stat(path, &st) == 0);
	CHECK_INT(st.st_size, chunks * sizeof(chunk));
	tear_down();
}

TEST(too_short_and_too_long)
{
	set_up();
	put(path, 0644, 6);
	peer_expect(&p, MSG_STARTED, CONTROL);
	data("abc", 3, FRAME_EOF);
	peer_expect_failed(&p, 1, FAIL_FILE);
	put(path, 0644, 2);
	peer_expect(&p, MSG_STARTED, CONTROL);
	data("abc", 3, 0);
	data("late", 4, FRAME_EOF);
	peer_expect_failed(&p, 1, FAIL_FILE);
	peer_expect_quiet(&p);
	CHECK(access(path, F_OK) < 0);
	tear_down();
}

TEST(file_that_cannot_be)
{
	set_up();
	put("/proc/no/such", 0644, 1);
	peer_expect_failed(&p, 1, FAIL_FILE);
	put(dir, 0644, 0);
	peer_expect(&p, MSG_STARTED, CONTROL);
	data(NULL, 0, FRAME_EOF);
	peer_expect_failed(&p, 1, FAIL_FILE);
	peer_expect_quiet(&p);
	tear_down();
}

TEST(cancelled_and_abandoned_files_leave_nothing)
{
	set_up();
	put(path, 0644, 6);
	peer_expect(&p, MSG_STARTED, CONTROL);
	data("abc", 3, 0);
	peer_send(&p, MSG_CANCEL, CONTROL, bytes_of(NULL, 0));
	peer_expect_failed(&p, 1, FAIL_FILE);
	put(path, 0644, 6);
	peer_expect(&p, MSG_STARTED, CONTROL);
	data("abc", 3, 0);
	peer_hello(&p);
	peer_expect_quiet(&p);
	CHECK(access(path, F_OK) < 0);
	tear_down();
}

TEST(nothing_to_freeze)
{
	struct msg_prepared m;
	struct msg_healed healed;

	peer_open(&p);
	PEER_SEND(&p, PREPARE, prepare, 0, .deadline_ms = 1000);
	CHECK(get_prepared(peer_expect(&p, MSG_PREPARED, 0).body, &m));
	CHECK_INT(m.error, EOPNOTSUPP);
	/* It failed, so commands go on. */
	peer_check_shell(&p, 1, "echo on", 0, "on\n");
	PEER_SEND(&p, HEAL, heal, 0, .realtime_ns = 0);
	CHECK(get_healed(peer_expect(&p, MSG_HEALED, 0).body, &healed));
	CHECK_INT(healed.error, 0);
	peer_stop(&p);
}
