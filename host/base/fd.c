/* SPDX-License-Identifier: Apache-2.0 */
/* File descriptors. */
#include "fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

void fd_close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved;
}

bool fd_pair(int *ret_ours, int *ret_theirs, struct err *err)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, "socketpair");
	if (fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0) {
		err_errno(err, "fcntl");
		close(pair[0]);
		close(pair[1]);
		return false;
	}
	*ret_ours = pair[0];
	*ret_theirs = pair[1];
	return true;
}

bool fd_write(int fd, const void *data, size_t len, struct err *err)
{
	const char *at = data;

	while (len) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "write");
		at += n;
		len -= (size_t)n;
	}
	return true;
}

int fd_in_memory(long long size, struct err *err)
{
	int fd = memfd_create("postern", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, size) < 0) {
		err_errno(err, "a file in memory");
		fd_close(&fd);
	}
	return fd;
}
