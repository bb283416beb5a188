/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes to streams and back. Nothing is read that can't be sent at once. */
#include "pump.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "terminal.h"

static void paid(struct input *in, size_t n)
{
	in->grant += credit_consumed(&in->credit, n);
}

/* Writes what the child takes now; closes an input that nobody reads any more. */
static size_t write_some(struct input *in, const uint8_t *data, size_t len)
{
	ssize_t wrote = write(in->fd, data, len);

	if (wrote < 0 && errno != EAGAIN && errno != EINTR)
		input_close(in);
	return wrote < 0 ? 0 : (size_t)wrote;
}

bool input_take(struct input *in, struct bytes data, bool eof)
{
	/* What was not announced yet was not granted. */
	if ((in->eof && data.len) || data.len + in->grant > in->credit.granted ||
		!credit_spend(&in->credit, data.len))
		return false;
	in->eof = in->eof || eof;
	in->came += data.len;
	/* Most goes past the ring. */
	if (in->fd >= 0 && !in->len && data.len) {
		size_t n = write_some(in, data.data, data.len);

		paid(in, n);
		data = bytes_of(data.data + n, data.len - n);
	}
	if (in->fd < 0 && !in->awaited) {
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

bool input_waits(const struct input *in)
{
	return in->fd >= 0 && (in->len || (in->eof && in->terminal));
}

/* Bytes left the ring. */
static void consumed(struct input *in, size_t n)
{
	if (in->secret)
		explicit_bzero(in->ring + in->at, n);
	in->at = (in->at + n) % STREAM_WINDOW;
	in->len -= n;
	paid(in, n);
}

/* Types the end-of-file character. False: not now. */
static bool type_end(struct input *in)
{
	int end = terminal_end(in->fd);

	return end < 0 || write(in->fd, &(uint8_t){ (uint8_t)end }, 1) == 1 || errno != EAGAIN;
}

void input_pump(struct input *in)
{
	while (in->fd >= 0 && in->len) {
		size_t n = STREAM_WINDOW - in->at;
		size_t wrote = write_some(in, in->ring + in->at, n < in->len ? n : in->len);

		if (!wrote)
			return;
		consumed(in, wrote);
	}
	/* An empty ring begins at its beginning: short inputs touch few pages. */
	if (!in->len)
		in->at = 0;
	if (in->eof && in->fd >= 0 && (!in->terminal || type_end(in)))
		input_close(in);
}

void input_close(struct input *in)
{
	if (in->fd >= 0)
		close(in->fd);
	in->fd = -1;
	in->awaited = false;
	while (in->len) {
		size_t n = STREAM_WINDOW - in->at;

		consumed(in, n < in->len ? n : in->len);
	}
}

uint32_t input_credit(struct input *in)
{
	in->credit.granted += in->credit.owed;
	in->credit.owed = 0;
	in->grant = 0;
	return in->credit.granted;
}

/* All that is wanted was sent; the child may write on. */
static bool is_full(const struct output *out)
{
	return out->max && out->sent >= out->max;
}

bool output_waits(const struct output *out)
{
	return out->fd >= 0 && (is_full(out) || (out->credit && !out->readable));
}

/* Reads up to max bytes. 0: nothing now; at the end the output is closed. */
static size_t take(struct output *out, uint8_t *space, size_t max, bool *ret_ended)
{
	ssize_t n;

	if (out->bounded && max > out->left)
		max = out->left;
	n = read(out->fd, space, max);
	/* A terminal that no program has open any more. */
	*ret_ended = n == 0 || (n < 0 && out->terminal && errno == EIO);
	if (*ret_ended)
		output_close(out);
	if (n <= 0) {
		out->readable = false;
		out->left = 0;
		return 0;
	}
	if (out->bounded)
		out->left -= (uint32_t)n;
	return (size_t)n;
}

static bool drop(struct output *out)
{
	static uint8_t nowhere[BULK_CHUNK];
	bool ended;
	size_t n = take(out, nowhere, sizeof(nowhere), &ended);

	out->cut += n;
	return n > 0;
}

bool output_pump(struct output *out, struct session *s, uint32_t stream)
{
	uint8_t *space;
	size_t n, max = BULK_CHUNK;
	bool ended;

	if (out->fd < 0 || !out->readable || output_drained(out))
		return false;
	if (is_full(out))
		return drop(out);
	space = out->credit ? session_bulk_space(s) : NULL;
	if (!space)
		return false;
	if (max > out->credit)
		max = out->credit;
	if (out->max && max > out->max - out->sent)
		max = (size_t)(out->max - out->sent);
	n = take(out, space, max, &ended);
	if (!n && !ended)
		return false;
	out->credit -= (uint32_t)n;
	out->sent += n;
	session_bulk(s, stream, n, ended);
	return true;
}

void output_bound(struct output *out)
{
	int waiting = TERMINAL_HOLDS;

	/* What a terminal holds is in several places, and only reading tells when it is empty. */
	if (out->fd >= 0 && !out->terminal && ioctl(out->fd, FIONREAD, &waiting) < 0)
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
