/* SPDX-License-Identifier: Apache-2.0 */
/* Receive one file. */
#include "put.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void make_parents(char *path)
{
	for (char *p = path + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		(void)mkdir(path, 0755);
		*p = '/';
	}
}

bool put_start(struct put *put, const struct msg_put *m)
{
	*put = (struct put){ .fd = -1, .credit = credit_new(), .mode = m->mode, .size = m->size };
	memcpy(put->path, m->path.data, m->path.len);
	(void)snprintf(put->part, sizeof(put->part), "%s.part", put->path);
	make_parents(put->path);
	(void)unlink(put->part);
	put->fd = open(put->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return put->fd >= 0;
}

static bool finish(struct put *put)
{
	if (put->got != put->size) {
		errno = ENODATA;
		return false;
	}
	if (fchmod(put->fd, put->mode) < 0 || rename(put->part, put->path) < 0)
		return false;
	close(put->fd);
	put->fd = -1;
	put->done_due = true;
	return true;
}

bool put_data(struct put *put, struct bytes data, bool eof)
{
	if (data.len > put->size - put->got) {
		errno = EFBIG;
		return false;
	}
	while (data.len) {
		ssize_t n = write(put->fd, data.data, data.len);

		if (n < 0)
			return false;
		data = bytes_of(data.data + n, data.len - (size_t)n);
		put->got += (uint64_t)n;
		put->grant += credit_consumed(&put->credit, (size_t)n);
	}
	return !eof || finish(put);
}

void put_turn(struct put *put, struct session *s, uint32_t id)
{
	if (s->phase != OPEN || !session_room(s))
		return;
	if (put->grant && put->fd >= 0)
		SEND(s, CREDIT, credit, stream_of(id, PART_STDIN), .bytes = put->grant);
	put->grant = 0;
	if (put->done_due)
		SEND(s, PUT_DONE, put_done, stream_of(id, PART_CONTROL), .size = put->size);
	put->done_due = false;
}

void put_release(struct put *put)
{
	if (put->fd < 0)
		return;
	close(put->fd);
	put->fd = -1;
	(void)unlink(put->part);
}
