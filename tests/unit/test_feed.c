/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input on its way to a command: ends, back-pressure, the escape. */
#include "cli/feed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "peer.h"

static const char *const argv_cat[] = { "cat", NULL };

static struct peer p;
static struct err err;
static struct feed feed;
static struct command *command;
static uint32_t id;

static void on_wanted(void *self)
{
	feed_push(self);
}

/* A command that fd goes into. */
static void begin(int fd, bool terminal)
{
	const struct command_spec spec = {
		.argv = argv_cat, .stream_input = true, .input_wanted = on_wanted, .self = &feed
	};

	peer_open(&p);
	feed_init(&feed, &p.loop, fd, &command, terminal);
	command = command_start(p.session, &spec, &err);
	CHECK(command);
	id = stream_id(expect(&p, MSG_EXEC).stream);
	SAY(&p, STARTED, started, stream_of(id, PART_CONTROL), .pid = 7);
}

static void end(void)
{
	feed_release(&feed);
	command_free(command);
	command = NULL;
	peer_release(&p);
}

/* A pipe with these bytes in it. */
static void make_pipe(int ends[2], const char *text)
{
	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	CHECK(fd_write(ends[1], text, strlen(text), &err));
}

static void expect_data(const char *text, unsigned flags)
{
	struct frame f = expect(&p, MSG_DATA);

	CHECK_INT(f.stream, stream_of(id, PART_STDIN));
	CHECK_INT(f.body.len, strlen(text));
	CHECK_MEM(f.body.data, text, f.body.len);
	CHECK_INT(f.flags, flags);
}

/* Whatever can happen without the guest has happened. */
static void settle(void)
{
	peer_check_alive(&p);
}

TEST(bytes_and_their_end_arrive)
{
	int ends[2];

	make_pipe(ends, "some");
	begin(ends[0], false);
	expect_data("some", 0);
	CHECK(fd_write(ends[1], "more", 4, &err));
	expect_data("more", 0);
	close(ends[1]);
	expect_data("", FRAME_EOF);
	end();
	close(ends[0]);
}

TEST(a_guest_that_takes_nothing_holds_the_reading_up)
{
	int fd = memfd_create("input", MFD_CLOEXEC);
	size_t total = 0;
	off_t read_so_far;

	CHECK(ftruncate(fd, (off_t)8 * STREAM_WINDOW) == 0);
	begin(fd, false);
	while (total < STREAM_WINDOW)
		total += expect(&p, MSG_DATA).body.len;
	CHECK_INT(total, STREAM_WINDOW);
	settle();
	read_so_far = lseek(fd, 0, SEEK_CUR);
	CHECK(read_so_far <= STREAM_WINDOW + 131072);
	for (struct frame f = { 0 }; f.flags != FRAME_EOF; total += f.body.len) {
		if (total % 65536 == 0)
			SAY(&p, CREDIT, credit, stream_of(id, PART_STDIN), .bytes = 65536);
		f = expect(&p, MSG_DATA);
	}
	CHECK_INT(total, 8 * STREAM_WINDOW);
	end();
	close(fd);
}

static bool has_ended(const void *arg)
{
	(void)arg;
	return command_result(command)->end != COMMAND_RUNS;
}

TEST(what_comes_after_the_end_is_left_alone)
{
	int ends[2], left;

	make_pipe(ends, "some");
	begin(ends[0], false);
	expect_data("some", 0);
	SAY(&p, EXIT, exit, stream_of(id, PART_CONTROL), .value = 0);
	CHECK(loop_until(&p.loop, has_ended, NULL, clock_in(SOON), &err));
	(void)expect(&p, MSG_ACK);
	CHECK(fd_write(ends[1], "not ours", 8, &err));
	settle();
	CHECK(ioctl(ends[0], FIONREAD, &left) == 0);
	CHECK_INT(left, 8);
	end();
	close(ends[0]);
	close(ends[1]);
}

TEST(what_cannot_be_read_is_an_error)
{
	int fd = open("/", O_RDONLY | O_CLOEXEC);

	begin(fd, false);
	settle();
	CHECK_INT(feed.error, EISDIR);
	end();
	close(fd);
}

TEST(a_terminal_that_is_gone_is_an_error)
{
	int ends[2];

	make_pipe(ends, "");
	begin(ends[0], true);
	close(ends[1]);
	settle();
	CHECK_INT(feed.error, EIO);
	end();
	close(ends[0]);
}

TEST(three_presses_in_a_row_are_the_escape)
{
	int ends[2];

	make_pipe(ends, "\x1d\x1d.\x1d");
	begin(ends[0], true);
	expect_data("\x1d\x1d.\x1d", 0);
	CHECK(!feed.escaped);
	CHECK(fd_write(ends[1], "\x1d", 1, &err));
	expect_data("\x1d", 0);
	CHECK(!feed.escaped);
	CHECK(fd_write(ends[1], "\x1d", 1, &err));
	expect_data("\x1d", 0);
	CHECK(feed.escaped);
	end();
	close(ends[0]);
	close(ends[1]);
}

TEST(the_escape_is_seen_behind_what_a_guest_does_not_take)
{
	static char typed[3 * STREAM_WINDOW];
	int fd = memfd_create("typed", MFD_CLOEXEC);

	memset(typed, 'x', sizeof(typed));
	memset(typed + sizeof(typed) - 3, 0x1d, 3);
	CHECK(fd_write(fd, typed, sizeof(typed), &err));
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	begin(fd, true);
	for (size_t total = 0; total < STREAM_WINDOW;)
		total += expect(&p, MSG_DATA).body.len;
	settle();
	CHECK(feed.escaped);
	end();
	close(fd);
}

TEST(in_a_pipe_the_keys_mean_nothing)
{
	int ends[2];

	make_pipe(ends, "\x1d\x1d\x1d");
	begin(ends[0], false);
	expect_data("\x1d\x1d\x1d", 0);
	CHECK(!feed.escaped);
	end();
	close(ends[0]);
	close(ends[1]);
}
