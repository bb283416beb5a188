/* SPDX-License-Identifier: Apache-2.0 */
/* Records between child and agent. */
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Room for one descriptor. */
union along {
	struct cmsghdr header;
	char space[CMSG_SPACE(sizeof(int))];
};

bool report_pair(int *ret_ours, int *ret_theirs)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return false;
	*ret_ours = ends[0];
	*ret_theirs = ends[1];
	fcntl(*ret_ours, F_SETFL, O_NONBLOCK);
	return true;
}

void report_send(int socket, const struct report *report, int fd)
{
	struct iovec data = { .iov_base = (void *)report, .iov_len = sizeof(*report) };
	union along along = { 0 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };

	if (fd >= 0) {
		along.header.cmsg_level = SOL_SOCKET;
		along.header.cmsg_type = SCM_RIGHTS;
		along.header.cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(&along.header), &fd, sizeof(fd));
		message.msg_control = along.space;
		message.msg_controllen = sizeof(along.space);
	}
	(void)sendmsg(socket, &message, MSG_NOSIGNAL);
}

enum report_state report_receive(int socket, struct report *ret_report, int *ret_fd)
{
	struct iovec data = { .iov_base = ret_report, .iov_len = sizeof(*ret_report) };
	union along along = { 0 };
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = along.space,
		.msg_controllen = sizeof(along.space),
	};
	ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *came = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

	*ret_fd = -1;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return REPORT_WAIT;
	if (came && came->cmsg_level == SOL_SOCKET && came->cmsg_type == SCM_RIGHTS &&
		came->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(ret_fd, CMSG_DATA(came), sizeof(int));
	if (n != sizeof(*ret_report)) {
		if (*ret_fd >= 0)
			close(*ret_fd);
		return REPORT_END;
	}
	return REPORT_READ;
}
