/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes to streams and back. Nothing is read that can't be sent at once. */
#include "pump.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void paid(struct input *in, size_t n)
{
	in->grant += credit_consumed(&in->credit, n);
}

bool input_take(struct input *in, struct bytes data, bool eof)
{
	if (in->eof || !credit_spend(&in->credit, data.len))
		return false;
	in->eof = eof;
	if (in->fd < 0) {
		paid(in, data.len);
		return true;
	}
	for (size_t done = 0; done < data.len;) {
		size_t to = (in->at + in->len) % STREAM_WINDOW, n = STREAM_WINDOW - to;

		if (n > data.len - done)
			n = data.len - done;
		memcpy(in->ring + to, data.data + done, n);
		in->len += n;
		done += n;
	}
	input_pump(in);
	return true;
}

void input_pump(struct input *in)
{
	while (in->fd >= 0 && in->len) {
		size_t n = STREAM_WINDOW - in->at;
		ssize_t wrote;

		wrote = write(in->fd, in->ring + in->at, n < in->len ? n : in->len);
		if (wrote < 0) {
			if (errno != EAGAIN && errno != EINTR)
				input_close(in);
			return;
		}
		in->at = (in->at + (size_t)wrote) % STREAM_WINDOW;
		in->len -= (size_t)wrote;
		paid(in, (size_t)wrote);
	}
	/* An empty ring begins at its beginning: short inputs touch few pages. */
	in->at = 0;
	if (in->eof && in->fd >= 0)
		input_close(in);
}

void input_close(struct input *in)
{
	if (in->fd >= 0)
		close(in->fd);
	in->fd = -1;
	paid(in, in->len);
	in->at = in->len = 0;
}

bool output_pump(struct output *out, struct session *s, uint32_t stream)
{
	uint8_t *space;
	size_t max = BULK_CHUNK;
	ssize_t n;

	if (out->fd < 0 || !out->readable || !out->credit || output_drained(out))
		return false;
	space = session_bulk_space(s);
	if (!space)
		return false;
	if (max > out->credit)
		max = out->credit;
	if (out->bounded && max > out->left)
		max = out->left;
	n = read(out->fd, space, max);
	if (n < 0) {
		out->readable = false;
		out->left = 0;
		return false;
	}
	out->credit -= (uint32_t)n;
	out->sent += (uint64_t)n;
	if (out->bounded)
		out->left -= (uint32_t)n;
	if (n == 0)
		output_close(out);
	session_bulk(s, stream, (size_t)n, n == 0);
	return true;
}

void output_bound(struct output *out)
{
	int waiting = 0;

	if (out->fd >= 0 && ioctl(out->fd, FIONREAD, &waiting) < 0)
		waiting = 0;
	out->bounded = true;
	out->left = (uint32_t)waiting;
	out->readable = true;
}

bool output_drained(const struct output *out)
{
	return out->fd < 0 || (out->bounded && !out->left);
}

void output_close(struct output *out)
{
	if (out->fd >= 0)
		close(out->fd);
	out->fd = -1;
}
