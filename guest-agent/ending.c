/* SPDX-License-Identifier: Apache-2.0 */
/* Sync in a child, with a bound, then off or again. */
#include "ending.h"

#include <sys/reboot.h>
#include <unistd.h>

#define SYNC_MS 10000 /* a disk that does not sync is not waited for longer */

void ending_begin(struct ending *e, int how, bool sync_first)
{
	if (e->at)
		return;
	e->how = how;
	e->at = now_ms();
	if (!sync_first)
		return;
	e->syncing = fork();
	if (e->syncing == 0) {
		sync();
		_exit(0);
	}
	e->at += e->syncing > 0 ? SYNC_MS : 0;
}

bool ending_reaped(struct ending *e, pid_t pid)
{
	if (!e->syncing || pid != e->syncing)
		return false;
	e->at = now_ms();
	return true;
}

void ending_wants(const struct ending *e, struct loop *loop)
{
	if (e->at)
		loop_until(loop, e->at);
}

void ending_turn(const struct ending *e)
{
	if (e->at && now_ms() >= e->at)
		reboot(e->how);
}
