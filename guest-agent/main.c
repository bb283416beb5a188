/* SPDX-License-Identifier: Apache-2.0 */
/* Which of its lives the agent lives. */
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent.h"
#include "service.h"
#include "stage.h"
#include "subject.h"
#include "text.h"

#define CHANNEL 3

static int wrong_use(void)
{
	static const char usage[] =
		"postern-agent " VERSION "\n"
		"usage: postern-agent --serve   serve on the port of this machine\n"
		"       postern-agent --fd N    serve on an inherited socket\n"
		"As /init of an initramfs it boots the machine; see /boot.conf there.\n";

	(void)!write(2, usage, sizeof(usage) - 1);
	return 2;
}

/* Commands must find none of our caller's descriptors, and 0 to 2 are theirs. */
static void keep_alone(unsigned first)
{
	int fd;

	(void)syscall(SYS_close_range, first, ~0u, 0);
	while ((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && fd < 3)
		;
	close(fd);
}

int main(int argc, char **argv, char **envp)
{
	struct agent_place place = { .ready = -1 };
	const char *number;
	uint64_t fd;

	if (subject_is(argv[0]))
		return subject_main(argc, argv);
	if (argc == 1 && argv[0][0] == STAGE_MARK)
		stage_serve();
	if (getpid() == 1)
		stage_boot(argv, envp);
	if (argc == 2 && !strcmp(argv[1], "--serve")) {
		keep_alone(CHANNEL);
		service_run();
	}
	if (argc != 3 || strcmp(argv[1], "--fd") != 0)
		return wrong_use();
	number = argv[2];
	if (!text_number(&number, &fd) || *number || fd > 65535 || fcntl((int)fd, F_GETFD) < 0)
		return wrong_use();
	(void)dup2((int)fd, CHANNEL);
	keep_alone(CHANNEL + 1);
	place.channel = CHANNEL;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	agent_run(&place);
}
