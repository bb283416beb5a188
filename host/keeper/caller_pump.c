/* SPDX-License-Identifier: Apache-2.0 */
/* What must be said to a caller, made into frames: control first, then outputs in turns. */
#include <string.h>

#include "caller.h"

static bool control(
	struct caller *c, uint16_t type, uint32_t id, enum stream_part part, struct bytes body)
{
	return outbox_control(&c->out, &(struct frame){
					       .type = type,
					       .stream = id ? stream_of(id, part) : 0,
					       .tag = c->tag,
					       .body = body,
				       });
}

static bool pump_pongs(struct caller *c)
{
	while (c->n_pings && c->pings[0].answered) {
		uint8_t body[sizeof(struct msg_pong)];
		struct writer w = writer_of(body, sizeof(body));

		put_pong(&w, &c->pings[0].pong);
		if (!control(c, MSG_PONG, 0, 0, bytes_of(body, (size_t)(w.at - body))))
			return false;
		c->n_pings--;
		memmove(c->pings, c->pings + 1, c->n_pings * sizeof(c->pings[0]));
	}
	return true;
}

static bool pump_started(struct leg *l)
{
	struct msg_started m = { l->pid };
	uint8_t body[sizeof(m)];
	struct writer w = writer_of(body, sizeof(body));

	put_started(&w, &m);
	if (l->started && !l->started_said)
		l->started_said = control(
			l->caller, MSG_STARTED, l->id, PART_CONTROL, bytes_of(body, sizeof(body)));
	return l->started_said || !l->started;
}

static bool pump_grant(struct leg *l)
{
	struct msg_credit m = { l->grant };
	uint8_t body[sizeof(m)];
	struct writer w = writer_of(body, sizeof(body));

	put_credit(&w, &m);
	if (m.bytes &&
		!control(l->caller, MSG_CREDIT, l->id, PART_STDIN, bytes_of(body, sizeof(body))))
		return false;
	l->grant = 0;
	return true;
}

static bool is_said(const struct leg_output *o)
{
	return o->at == o->waits.len && o->end == o->end_said;
}

/* Control overtakes data, so the last of that must have left us before an end is said. */
static bool end_is_due(const struct leg *l)
{
	if (!l->end || l->end_said)
		return false;
	return l->end == MSG_FAILED ||
	       (is_said(&l->output[0]) && is_said(&l->output[1]) && !l->caller->out.bulk_len);
}

/* True unless there was no room; *ret_gone: it is over, and freed. */
static bool pump_end(struct leg *l, bool *ret_gone)
{
	*ret_gone = false;
	if (!end_is_due(l))
		return true;
	if (!control(l->caller, l->end, l->id, PART_CONTROL,
		    bytes_of(l->end_body.data, l->end_body.len)))
		return false;
	l->end_said = true;
	/* Nobody acknowledges a failure. */
	*ret_gone = l->end == MSG_FAILED;
	if (*ret_gone)
		leg_free(l);
	return true;
}

/* False: no room, so that nothing later may be queued either. */
static bool pump_legs(struct caller *c)
{
	bool gone;

	for (unsigned i = 0; i < c->n_legs; i += !gone) {
		struct leg *l = c->legs[i];

		if (!pump_started(l) || !pump_grant(l) || !pump_end(l, &gone))
			return false;
	}
	return true;
}

/* How much of it may go now. */
static size_t may_send(const struct leg_output *o)
{
	size_t n = o->waits.len - o->at;

	n = n < o->to_send ? n : o->to_send;
	return n < BULK_CHUNK ? n : BULK_CHUNK;
}

static bool has_data(const struct leg *l, const struct leg_output *o)
{
	return l->started_said && l->end != MSG_FAILED &&
	       (may_send(o) || (o->end && !o->end_said && o->at == o->waits.len));
}

static void send_chunk(struct leg *l, enum stream_part part, uint8_t *space)
{
	struct leg_output *o = &l->output[part - PART_STDOUT];
	const uint8_t *from = (const uint8_t *)o->waits.data + o->at;
	size_t n = may_send(o);

	n = n ? hello_split(from, n) : 0;
	if (n)
		memcpy(space, from, n);
	o->at += n;
	o->to_send -= (uint32_t)n;
	if (o->at == o->waits.len)
		o->at = o->waits.len = 0;
	o->end_said = o->end && !o->waits.len;
	outbox_bulk(&l->caller->out, &(struct frame){
					     .type = MSG_DATA,
					     .flags = o->end_said ? FRAME_EOF : 0,
					     .stream = stream_of(l->id, part),
					     .tag = l->caller->tag,
					     .body = { NULL, n },
				     });
}

/* One chunk of somebody's output. */
static void pump_data(struct caller *c)
{
	uint8_t *space = outbox_bulk_space(&c->out);
	unsigned outputs = 2 * c->n_legs;

	for (unsigned i = 1; space && i <= outputs; i++) {
		unsigned n = (c->turn + i) % outputs;
		struct leg *l = c->legs[n / 2];

		if (!has_data(l, &l->output[n % 2]))
			continue;
		send_chunk(l, PART_STDOUT + n % 2, space);
		c->turn = n;
		return;
	}
}

void caller_pump(struct caller *c)
{
	if (c->phase == OPEN && pump_pongs(c) && pump_legs(c))
		pump_data(c);
}
