/* SPDX-License-Identifier: Apache-2.0 */
/* The real agent ($POSTERN_AGENT) as a child, on a socketpair. */
#ifndef START_H
#define START_H

#include <sys/types.h>

/* Returns our end, which does not block. The agent ends when that is closed, and dies with us. */
int agent_start(pid_t *ret_pid);

#endif
