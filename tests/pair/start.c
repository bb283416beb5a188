/* SPDX-License-Identifier: Apache-2.0 */
/* Start the agent that is to be tested. */
#include "start.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

int agent_start(pid_t *ret_pid)
{
	const char *agent = getenv("POSTERN_AGENT");
	char number[16];
	int ends[2];

	if (!agent)
		agent = "build/postern-agent";
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	*ret_pid = fork();
	CHECK(*ret_pid >= 0);
	if (*ret_pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fcntl(ends[1], F_SETFD, 0);
		(void)snprintf(number, sizeof(number), "%d", ends[1]);
		execl(agent, agent, "--fd", number, (char *)NULL);
		perror(agent);
		_exit(127);
	}
	close(ends[1]);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	return ends[0];
}
