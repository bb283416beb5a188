/* SPDX-License-Identifier: Apache-2.0 */
/* Input of one operation: what waits, what was sent, and how it goes back after a loss. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#include "base/xalloc.h"

/* What waits, and behind it what was sent and may have to be sent again. */
#define INPUT_ROOM (STREAM_WINDOW + INPUT_BUFFER)

void input_borrow(struct input *in, const void *data, size_t len)
{
	in->open = in->end = true;
	in->next = data;
	in->len = len;
}

void input_stream(struct input *in, void (*wanted)(void *self))
{
	in->open = in->wants_room = true;
	in->wanted = wanted;
	in->next = in->buffer = xcalloc(1, INPUT_ROOM);
	in->room = INPUT_BUFFER;
}

void input_release(struct input *in)
{
	free(in->buffer);
	in->next = in->buffer = NULL;
	in->len = 0;
	in->wants_room = false;
	in->gone = in->end_sent = true;
}

uint64_t input_paid(const struct input *in)
{
	uint64_t unpaid = STREAM_WINDOW - in->to_send, paid = 0;

	if (in->sent > unpaid)
		paid = in->sent - unpaid;
	return paid > in->arrived ? paid : in->arrived;
}

/* What the guest has paid for is never asked for again. */
static void forget_paid(struct input *in)
{
	size_t kept = (size_t)(in->next - in->buffer);
	size_t unpaid = (size_t)(in->sent - input_paid(in));

	if (kept <= unpaid)
		return;
	memmove(in->buffer, in->next - unpaid, unpaid + in->len);
	in->next = in->buffer + unpaid;
}

size_t input_add(struct input *in, const void *data, size_t len)
{
	size_t room = in->len < in->room ? in->room - in->len : 0;
	size_t n = len < room ? len : room;

	if ((size_t)(in->next - in->buffer) + in->len + n > INPUT_ROOM)
		forget_paid(in);
	if (n)
		memcpy(in->buffer + (in->next - in->buffer) + in->len, data, n);
	in->len += n;
	in->wants_room = n < len;
	return n;
}

bool input_waits(const struct input *in)
{
	return in->open && !in->end_sent && (in->len ? in->to_send > 0 : in->end);
}

size_t input_next(struct input *in, uint8_t *space)
{
	size_t n = in->len < BULK_CHUNK ? in->len : BULK_CHUNK;

	n = n < in->to_send ? n : in->to_send;
	n = hello_split(in->next, n);
	if (n) {
		memcpy(space, in->next, n);
		in->next += n;
	}
	in->len -= n;
	in->to_send -= (uint32_t)n;
	in->sent += n;
	in->end_sent = !in->len && in->end;
	return n;
}

void input_rewind(struct input *in, uint64_t arrived, uint32_t credit)
{
	uint64_t back = in->sent - arrived;

	if (!in->gone && back) {
		in->next -= back;
		in->len += back;
	}
	in->sent = in->arrived = arrived;
	in->to_send = credit;
	/* Nobody knows whether the end arrived: it is said again. */
	in->end_sent = in->gone;
}

static bool has_room(const struct command *c)
{
	return c->input.wants_room && c->input.wanted && c->input.len <= INPUT_BUFFER / 2;
}

static struct command *find_hungry(const struct session *s)
{
	for (unsigned i = 0; i < s->n_operations; i++)
		if (has_room(s->operations[i]))
			return s->operations[i];
	return NULL;
}

/* A callback may start, feed and free what it likes, so each search begins anew. */
void inputs_call(struct session *s)
{
	struct command *c;

	while (c = find_hungry(s), c) {
		c->input.wants_room = false;
		c->input.wanted(c->self);
	}
}
