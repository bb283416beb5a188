/* SPDX-License-Identifier: Apache-2.0 */
/* Output of a command as it comes. */
#include "capture.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

bool capture_open(struct capture *c, size_t keep, const char *path, struct err *err)
{
	*c = (struct capture){ .keep = keep, .fd = -1 };
	if (!path)
		return true;
	c->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	return c->fd >= 0 || err_errno(err, "%s", path);
}

void capture_release(struct capture *c)
{
	fd_close(&c->fd);
	buf_release(&c->head);
	buf_release(&c->tail);
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void to_file(struct capture *c, const uint8_t *data, size_t len)
{
	struct err ignored;

	len = smaller(len, (size_t)(CAPTURE_FILE - c->file_bytes));
	if (c->fd < 0 || !len || c->file_failed)
		return;
	if (fd_write(c->fd, data, len, &ignored))
		c->file_bytes += len;
	else
		c->file_failed = true;
}

size_t capture_add(void *capture, enum stream_part part, const uint8_t *untrusted_data, size_t len)
{
	struct capture *c = capture;
	size_t first = smaller(len, c->keep - c->head.len);

	(void)part;
	to_file(c, untrusted_data, len);
	c->bytes += len;
	buf_add(&c->head, untrusted_data, first);
	buf_add(&c->tail, untrusted_data + first, len - first);
	if (c->tail.len > 2 * c->keep) {
		memmove(c->tail.data, c->tail.data + c->tail.len - c->keep, c->keep);
		c->tail.len = c->keep;
	}
	return len;
}

bool capture_is_whole(const struct capture *c)
{
	return c->bytes == c->head.len + c->tail.len && c->tail.len <= c->keep;
}

void capture_join(const struct capture *c, struct buf *out)
{
	size_t end = smaller(c->tail.len, c->keep);

	buf_add(out, buf_text(&c->head), c->head.len);
	buf_add(out, buf_text(&c->tail) + c->tail.len - end, end);
}
