/* SPDX-License-Identifier: Apache-2.0 */
#include "raw.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

static bool fill(struct raw *raw, struct err *err)
{
	ssize_t n;

	do
		n = recv(raw->fd, raw->buf, sizeof(raw->buf), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_errno(err, "the raw port can't be read");
	if (n == 0)
		return err_set(err, ERR_PEER, "QEMU closed the raw port");
	raw->at = 0;
	raw->len = (size_t)n;
	return true;
}

static bool ask(struct raw *raw, const char *what, size_t number, struct err *err)
{
	char line[64];
	int n = number ? snprintf(line, sizeof(line), "%s %zu\n", what, number)
		       : snprintf(line, sizeof(line), "%s\n", what);

	return fd_write(raw->fd, line, (size_t)n, err);
}

/* The answer to all but `sh` is one line, "0 0". */
static bool answered(struct raw *raw, const char *what, struct err *err)
{
	char line[16] = "";
	size_t n = 0;

	do {
		if (raw->at == raw->len && !fill(raw, err))
			return false;
		line[n] = raw->buf[raw->at++];
	} while (line[n] != '\n' && ++n < sizeof(line) - 1);
	if (strcmp(line, "0 0\n") != 0)
		return err_set(err, ERR_PEER, "the raw port answered '%s' with '%.*s'", what,
			(int)strcspn(line, "\n"), line);
	return true;
}

bool raw_echo(struct raw *raw, struct err *err)
{
	return ask(raw, "echo", 0, err) && answered(raw, "echo", err);
}

bool raw_true(struct raw *raw, struct err *err)
{
	return ask(raw, "exec /bin/true", 0, err) && answered(raw, "exec", err);
}

bool raw_out(struct raw *raw, size_t len, bool piped, struct err *err)
{
	const char *what = piped ? "pipe" : "pull";

	if (!ask(raw, what, len, err))
		return false;
	while (len) {
		size_t n;

		if (raw->at == raw->len && !fill(raw, err))
			return false;
		n = raw->len - raw->at < len ? raw->len - raw->at : len;
		raw->at += n;
		len -= n;
	}
	return answered(raw, what, err);
}

bool raw_in(struct raw *raw, const char *data, size_t len, bool piped, struct err *err)
{
	const char *what = piped ? "drain" : "push";

	return ask(raw, what, len, err) && fd_write(raw->fd, data, len, err) &&
	       answered(raw, what, err);
}
