/* SPDX-License-Identifier: Apache-2.0 */
/* Which of its lives the agent lives. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent.h"
#include "stage.h"

#define CHANNEL 3

static int wrong_use(void)
{
	static const char usage[] =
		"postern-agent " VERSION "\n"
		"usage: postern-agent --fd N    serve on an inherited socket\n"
		"As /init of an initramfs it boots the machine; see /boot.conf there.\n";

	(void)!write(2, usage, sizeof(usage) - 1);
	return 2;
}

int main(int argc, char **argv, char **envp)
{
	struct agent_place place = { .channel = -1, .ready = -1 };
	char *end;

	if (argc == 1 && argv[0][0] == STAGE_MARK)
		stage_serve();
	if (getpid() == 1)
		stage_boot(argv, envp);
	if (argc != 3 || strcmp(argv[1], "--fd") != 0)
		return wrong_use();
	place.channel = (int)strtol(argv[2], &end, 10);
	if (*end || end == argv[2] || fcntl(place.channel, F_GETFD) < 0)
		return wrong_use();
	/* Commands must find none of our caller's descriptors. */
	(void)dup2(place.channel, CHANNEL);
	(void)syscall(SYS_close_range, CHANNEL + 1, ~0u, 0);
	place.channel = CHANNEL;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	agent_run(&place);
}
