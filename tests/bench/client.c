/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of postern's agent that lives as long as a machine which is reset, so that no start of a
 * process is on the clock. Standard input is a socket: a line asks, "STATUS LENGTH\n" and LENGTH
 * bytes answer, as on the raw port.
 *
 *	client [FD]		a channel that the guest's QEMU inherited the other end of
 *
 *	attach PATH		drops the channel, connects to this socket, of QEMU or a
 *				keeper, and waits for the guest's answer
 *	wait			for that answer on FD; a clone of a template is healed too
 *	true			runs /bin/true
 *	sh COMMAND		runs it by the guest's shell, with its output
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"
#include "link/session.h"

#define PATIENCE 120000 /* ms for any one thing */

struct client {
	struct loop loop;
	struct session *session;
	struct buf said; /* by a command */
	int status;
};

static bool wait_open(struct client *c, struct err *err)
{
	if (!c->session)
		return err_set(err, ERR_INPUT, "nothing is attached");
	if (!session_wait_open(c->session, clock_in(PATIENCE), err))
		return false;
	return !session_is_frozen(c->session) || session_heal(c->session, clock_in(PATIENCE), err);
}

static bool attach(struct client *c, const char *path, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	CLEAN(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	session_free(c->session);
	c->session = NULL;
	if (strlen(path) >= sizeof(address.sun_path))
		return err_set(err, ERR_INPUT, "the socket's path is too long: use a shorter one");
	memcpy(address.sun_path, path, strlen(path));
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return err_errno(err, "%s", path);
	c->session = session_new(&c->loop, fd_take(&fd));
	return wait_open(c, err);
}

static size_t keep(void *self, enum stream_part part, const uint8_t *untrusted_data, size_t len)
{
	struct client *c = self;

	(void)part;
	buf_add(&c->said, untrusted_data, len);
	return len;
}

static bool run(struct client *c, const char *const *argv, struct err *err)
{
	static const char *const env[] = { SEARCH_PATH_PAIR, NULL };
	const struct command_spec spec = {
		.argv = argv, .env = env, .output_max = 65536, .output = keep, .self = c
	};
	struct command_result result;

	if (!c->session)
		return err_set(err, ERR_INPUT, "nothing is attached");
	if (!command_run(c->session, &spec, clock_in(PATIENCE), &result, err))
		return false;
	c->status = result.end == COMMAND_EXITED ? result.value : 126;
	return result.end == COMMAND_EXITED || err_set(err, ERR_PEER, "%s", result.text);
}

static bool obey(struct client *c, const char *line, struct err *err)
{
	if (!strncmp(line, "attach ", 7))
		return attach(c, line + 7, err);
	if (!strcmp(line, "wait"))
		return wait_open(c, err);
	if (!strcmp(line, "true"))
		return run(c, (const char *const[]){ "/bin/true", NULL }, err);
	if (!strncmp(line, "sh ", 3))
		return run(c, (const char *const[]){ "/bin/sh", "-c", line + 3, NULL }, err);
	return err_set(err, ERR_INPUT, "wrong use; see the head of tests/bench/client.c");
}

static void answer(struct client *c, const char *line)
{
	struct err err = { 0 };

	c->said.len = 0;
	c->status = 0;
	if (!obey(c, line, &err)) {
		c->status = 125;
		c->said.len = 0;
		buf_printf(&c->said, "%s", err.text);
	}
	printf("%d %zu\n", c->status, c->said.len);
	(void)fwrite(c->said.data, 1, c->said.len, stdout);
	(void)fflush(stdout);
}

int main(int argc, char **argv)
{
	static struct client c;
	static char line[4096];
	struct err err = { 0 };
	int fd = argc > 1 ? (int)strtol(argv[1], NULL, 10) : -1;

	if (!loop_init(&c.loop, false, &err)) {
		(void)fprintf(stderr, "client: %s\n", err.text);
		return 1;
	}
	if (fd >= 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
		c.session = session_new(&c.loop, fd);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		answer(&c, line);
	}
	session_free(c.session);
	buf_release(&c.said);
	return 0;
}
