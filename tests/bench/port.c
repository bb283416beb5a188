/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures one thing on one port, many times, and prints each time as a line of JSON.
 *
 *	port raw FD MEASURE RUNS		the raw port, on an inherited socket
 *	port postern PATH MEASURE RUNS [FILE]	postern, on the socket that QEMU listens on
 *	port postern PATH hold			stays attached until standard input ends
 *	port postern PATH run COMMAND...	runs it, with standard input and outputs
 *
 * Both sides are measured by the same loop, so that what the harness costs is in no figure and
 * what the loop costs is in both.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "link/session.h"
#include "link/tree.h"
#include "raw.h"

#define BULK	   (64u << 20)
#define BULK_TEXT  "67108864"
#define GUEST	   "/usr/local/sbin/bench-guest"
#define GUEST_FILE "/dev/shm/bulk"
#define FLOOD_MIN  (1u << 20) /* it flows once so much has come */
#define PATIENCE   120000     /* ms for any one thing */
#define INPUT_MAX  (16u << 20)

struct bench {
	struct raw raw;
	struct loop loop;
	const char *path, *file;
	struct session *session;
	char *data; /* BULK bytes to send */
	struct command *flood;
	uint64_t flooded, flooded_before;
	double flood_since;
	uint64_t came; /* bytes of output */
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static bool make_data(struct bench *b, struct err *err)
{
	(void)err;
	b->data = xcalloc(1, BULK);
	memset(b->data, 'x', BULK);
	return true;
}

/* --- the raw port */

static bool echo(struct bench *b, struct err *err)
{
	return raw_echo(&b->raw, err);
}

static bool raw_run_true(struct bench *b, struct err *err)
{
	return raw_true(&b->raw, err);
}

static bool raw_bulk_out(struct bench *b, struct err *err)
{
	return raw_out(&b->raw, BULK, false, err);
}

static bool raw_bulk_in(struct bench *b, struct err *err)
{
	return raw_in(&b->raw, b->data, BULK, false, err);
}

static bool raw_pipe_out(struct bench *b, struct err *err)
{
	return raw_out(&b->raw, BULK, true, err);
}

static bool raw_pipe_in(struct bench *b, struct err *err)
{
	return raw_in(&b->raw, b->data, BULK, true, err);
}

/* --- postern */

static bool attach(struct bench *b, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	CLEAN(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(b->path) >= sizeof(address.sun_path))
		return err_set(err, ERR_INPUT, "the socket's path is too long: use a shorter one");
	memcpy(address.sun_path, b->path, strlen(b->path));
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return err_errno(err, "%s", b->path);
	b->session = session_new(&b->loop, fd_take(&fd));
	return session_wait_open(b->session, clock_in(PATIENCE), err);
}

/* The agent meets the next host at any phase of its own timers. */
static bool leave_alone(struct bench *b, struct err *err)
{
	(void)err;
	session_free(b->session);
	b->session = NULL;
	(void)poll(NULL, 0, 100 + rand() % 400);
	return true;
}

static bool ping(struct bench *b, struct err *err)
{
	return session_ping(b->session, clock_in(PATIENCE), NULL, err);
}

/* True when it ran and succeeded. */
static bool run(struct bench *b, const struct command_spec *spec, struct err *err)
{
	struct command_result result;

	if (!command_run(b->session, spec, clock_in(PATIENCE), &result, err))
		return false;
	if (result.end != COMMAND_EXITED || result.value)
		return err_set(err, ERR_PEER, "%s in the guest: end %d, value %d %s", spec->argv[0],
			(int)result.end, result.value, result.text);
	return true;
}

static bool run_true(struct bench *b, struct err *err)
{
	static const char *const argv[] = { "/bin/true", NULL };

	return run(b, &(struct command_spec){ .argv = argv }, err);
}

static size_t count(void *self, enum stream_part part, const uint8_t *untrusted_data, size_t len)
{
	struct bench *b = self;

	(void)part;
	(void)untrusted_data;
	b->came += len;
	return len;
}

static bool bulk_out(struct bench *b, struct err *err)
{
	static const char *const argv[] = { GUEST, "write", BULK_TEXT, NULL };

	b->came = 0;
	if (!run(b, &(struct command_spec){ .argv = argv, .output = count, .self = b }, err))
		return false;
	return b->came == BULK ||
	       err_set(err, ERR_PEER, "only %llu bytes came", (unsigned long long)b->came);
}

static bool bulk_in(struct bench *b, struct err *err)
{
	static const char *const argv[] = { GUEST, "read", BULK_TEXT, NULL };

	return run(b, &(struct command_spec){ .argv = argv, .input = b->data, .input_len = BULK },
		err);
}

static bool remove_file(struct bench *b, struct err *err)
{
	return unlink(b->file) == 0 || errno == ENOENT || err_errno(err, "%s", b->file);
}

static bool get(struct bench *b, struct err *err)
{
	struct tree_report report;

	return session_get_tree(
		b->session, GUEST_FILE, b->file, false, clock_in(PATIENCE), &report, err);
}

static bool put(struct bench *b, struct err *err)
{
	struct tree_report report;

	return session_put_tree(
		b->session, b->file, GUEST_FILE, false, clock_in(PATIENCE), &report, err);
}

/* --- a flood meanwhile */

static size_t count_flood(
	void *self, enum stream_part part, const uint8_t *untrusted_data, size_t len)
{
	struct bench *b = self;

	(void)part;
	(void)untrusted_data;
	b->flooded += len;
	return len;
}

static bool flows(const void *bench)
{
	const struct bench *b = bench;

	return b->flooded - b->flooded_before >= FLOOD_MIN || command_result(b->flood)->end;
}

static bool flood_begin(struct bench *b, struct err *err)
{
	static const char *const argv[] = { "/usr/bin/yes", NULL };

	b->flood = command_start(b->session,
		&(struct command_spec){ .argv = argv, .output = count_flood, .self = b }, err);
	if (!b->flood || !loop_until(&b->loop, flows, b, clock_in(PATIENCE), err))
		return err_in(err, "a flood of output");
	b->flooded_before = b->flooded;
	b->flood_since = now();
	return true;
}

static bool flood_ended(const void *bench)
{
	const struct bench *b = bench;

	return command_result(b->flood)->end != COMMAND_RUNS;
}

static bool flood_end(struct bench *b, struct err *err)
{
	double ms = now() - b->flood_since;

	printf("{\"flood_mib_s\": %.1f}\n",
		(double)(b->flooded - b->flooded_before) / (1 << 20) / (ms / 1e3));
	if (flood_ended(b) || b->flooded == b->flooded_before)
		return err_set(err, ERR_PEER, "the flood of output stopped meanwhile");
	command_cancel(b->flood);
	return loop_until(&b->loop, flood_ended, b, clock_in(PATIENCE), err);
}

/* --- the loop that measures */

typedef bool step(struct bench *b, struct err *err);

static const struct measure {
	const char *end, *name;
	step *once;	    /* on the clock */
	step *begin, *last; /* before and after all of them */
	step *before;	    /* each of them */
} measures[] = {
	{ "raw", "echo", echo, NULL, NULL, NULL },
	{ "raw", "true", raw_run_true, NULL, NULL, NULL },
	{ "raw", "out", raw_bulk_out, NULL, NULL, NULL },
	{ "raw", "in", raw_bulk_in, make_data, NULL, NULL },
	{ "raw", "pipe-out", raw_pipe_out, NULL, NULL, NULL },
	{ "raw", "pipe-in", raw_pipe_in, make_data, NULL, NULL },
	{ "postern", "ping", ping, NULL, NULL, NULL },
	{ "postern", "true", run_true, NULL, NULL, NULL },
	{ "postern", "out", bulk_out, NULL, NULL, NULL },
	{ "postern", "in", bulk_in, make_data, NULL, NULL },
	{ "postern", "get", get, NULL, NULL, remove_file },
	{ "postern", "put", put, NULL, NULL, NULL },
	{ "postern", "attach", attach, NULL, NULL, leave_alone },
	{ "postern", "flood-ping", ping, flood_begin, flood_end, NULL },
	{ "postern", "flood-true", run_true, flood_begin, flood_end, NULL },
};

static bool measure(struct bench *b, const struct measure *m, int runs, struct err *err)
{
	int warm_up = runs > 1 ? 1 + runs / 10 : 0;

	if (m->begin && !m->begin(b, err))
		return false;
	for (int i = -warm_up; i < runs; i++) {
		double start;

		if (m->before && !m->before(b, err))
			return false;
		start = now();
		if (!m->once(b, err))
			return false;
		if (i >= 0)
			printf("{\"ms\": %.4f}\n", now() - start);
	}
	return !m->last || m->last(b, err);
}

/* --- what is no measurement */

static short wants_input(const void *self)
{
	return *(const bool *)self ? 0 : POLLIN;
}

static void input_ended(void *self, short events)
{
	char byte;

	(void)events;
	if (read(STDIN_FILENO, &byte, 1) <= 0)
		*(bool *)self = true;
}

static bool is_true(const void *flag)
{
	return *(const bool *)flag;
}

static bool hold(struct bench *b, struct err *err)
{
	bool over = false;
	struct source input = {
		.fd = STDIN_FILENO, .wants = wants_input, .ready = input_ended, .self = &over
	};
	bool ok;

	puts("{\"attached\": true}");
	(void)fflush(stdout);
	loop_add(&b->loop, &input);
	ok = loop_until(&b->loop, is_true, &over, CLOCK_NEVER, err);
	loop_remove(&b->loop, &input);
	return ok;
}

static size_t show(void *self, enum stream_part part, const uint8_t *untrusted_data, size_t len)
{
	(void)self;
	(void)fwrite(untrusted_data, 1, len, part == PART_STDOUT ? stdout : stderr);
	return len;
}

static bool run_command(struct bench *b, char **argv, struct err *err)
{
	static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
	CLEAN(buf) struct buf input = { 0 };
	char piece[4096];
	ssize_t n;

	while ((n = read(STDIN_FILENO, piece, sizeof(piece))) > 0 && input.len < INPUT_MAX)
		buf_add(&input, piece, (size_t)n);
	return run(b,
		&(struct command_spec){
			.argv = (const char *const *)argv,
			.env = env,
			.input = buf_text(&input),
			.input_len = input.len,
			.output = show,
		},
		err);
}

static bool act(struct bench *b, int argc, char **argv, struct err *err)
{
	char *end = NULL;
	long runs = argc > 4 ? strtol(argv[4], &end, 10) : 0;

	if (!strcmp(argv[1], "postern") && !strcmp(argv[3], "hold") && argc == 4)
		return hold(b, err);
	if (!strcmp(argv[1], "postern") && !strcmp(argv[3], "run") && argc > 4)
		return run_command(b, argv + 4, err);
	b->file = argc > 5 ? argv[5] : NULL;
	for (size_t i = 0; i < sizeof(measures) / sizeof(*measures); i++) {
		const struct measure *m = &measures[i];

		if (strcmp(m->end, argv[1]) || strcmp(m->name, argv[3]))
			continue;
		if (!end || *end || runs < 1 || ((m->once == get || m->once == put) != !!b->file))
			break;
		return measure(b, m, (int)runs, err);
	}
	return err_set(err, ERR_INPUT, "wrong use; see the head of tests/bench/port.c");
}

static bool open_end(struct bench *b, char **argv, struct err *err)
{
	if (!strcmp(argv[1], "postern")) {
		b->path = argv[2];
		return loop_init(&b->loop, false, err) && attach(b, err);
	}
	b->raw.fd = (int)strtol(argv[2], NULL, 10);
	/* Python's sockets do not block. */
	return fcntl(b->raw.fd, F_SETFL, 0) == 0 || err_errno(err, "descriptor %s", argv[2]);
}

int main(int argc, char **argv)
{
	static struct bench b;
	struct err err = { 0 };
	bool ok;

	ok = argc > 3 ? open_end(&b, argv, &err) && act(&b, argc, argv, &err)
		      : err_set(&err, ERR_INPUT, "wrong use; see the head of tests/bench/port.c");
	if (!ok)
		(void)fprintf(stderr, "port: %s\n", err.text);
	command_free(b.flood);
	session_free(b.session);
	free(b.data);
	return ok ? 0 : 1;
}
