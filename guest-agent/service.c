/* SPDX-License-Identifier: Apache-2.0 */
/* Protection, and the plain service. */
#include "service.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#include "agent.h"
#include "group.h"
#include "kernfs.h"
#include "mini.h"

void service_protect(void)
{
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	(void)kernfs_write(kernfs_proc(), "self/oom_score_adj", "-1000");
	/* Pages are locked as they are touched: most buffers never are. */
	(void)mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
}

_Noreturn void service_run(void)
{
	static const struct agent_place place = {
		.channel = -1, .ready = -1, .owns_machine = true, .steps_aside = true
	};

	service_protect();
	groups_init(MINI_CGROUP);
	agent_run(&place);
}
