/* SPDX-License-Identifier: Apache-2.0 */
/* One file on its way into the agent's own root: written beside its place, then renamed. */
#ifndef PUT_H
#define PUT_H

#include "credit.h"
#include "session.h"

struct put {
	int fd; /* -1: done */
	bool done_due;
	struct credit credit;
	uint32_t mode, grant;
	uint64_t size, got;
	char path[PATH_LENGTH], part[PATH_LENGTH + 8];
};

/* False with errno: the file can't be begun. */
bool put_start(struct put *put, const struct msg_put *m);
/* Bytes arrived. False with errno: the file is broken, and gone. */
bool put_data(struct put *put, struct bytes data, bool eof);
/* Says what is due. */
void put_turn(struct put *put, struct session *s, uint32_t id);
/* An unfinished file disappears. */
void put_release(struct put *put);

#endif
