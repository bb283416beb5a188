/* SPDX-License-Identifier: Apache-2.0 */
/* What must be sent for operations, made into frames: control first, then input in turns. */
#include <string.h>

#include "internal.h"

bool pump_queue(
	struct session *s, uint16_t type, uint32_t id, enum stream_part part, struct bytes body)
{
	return outbox_control(&s->out, &(struct frame){
					       .type = type,
					       .stream = stream_of(id, part),
					       .tag = s->tag,
					       .body = body,
				       });
}

static bool control(struct command *c, uint16_t type, struct bytes body)
{
	return pump_queue(c->session, type, c->id, PART_CONTROL, body);
}

static bool pump_opener(struct command *c)
{
	if (c->state != UNSENT)
		return true;
	if (!control(c, c->type, bytes_of(c->opener, c->opener_len)))
		return false;
	c->state = SENT;
	return true;
}

static bool pump_cancel(struct command *c)
{
	if (c->cancel && !control(c, MSG_CANCEL, bytes_of(NULL, 0)))
		return false;
	c->cancel = false;
	return true;
}

static bool pump_signals(struct command *c)
{
	while (c->n_signals) {
		struct msg_signal m = { c->signals[0] };
		uint8_t body[sizeof(m)];
		struct writer w = writer_of(body, sizeof(body));

		put_signal(&w, &m);
		if (!control(c, MSG_SIGNAL, bytes_of(body, sizeof(body))))
			return false;
		c->n_signals--;
		memmove(c->signals, c->signals + 1, c->n_signals);
	}
	return true;
}

static bool pump_resize(struct command *c)
{
	struct msg_resize m = { c->rows, c->columns };
	uint8_t body[sizeof(m)];
	struct writer w = writer_of(body, sizeof(body));

	put_resize(&w, &m);
	if (c->resize && !control(c, MSG_RESIZE, bytes_of(body, sizeof(body))))
		return false;
	c->resize = false;
	return true;
}

static bool pump_grants(struct command *c)
{
	for (unsigned i = 0; i < 2; i++) {
		struct msg_credit m = { c->output[i].grant };
		uint8_t body[sizeof(m)];
		struct writer w = writer_of(body, sizeof(body));

		if (!m.bytes)
			continue;
		put_credit(&w, &m);
		if (!pump_queue(c->session, MSG_CREDIT, c->id, PART_STDOUT + i,
			    bytes_of(body, sizeof(body))))
			return false;
		c->output[i].grant = 0;
	}
	return true;
}

/* False: no room, so that nothing later may be queued either. */
static bool pump_control(struct command *c)
{
	return pump_opener(c) && pump_cancel(c) && pump_signals(c) && pump_resize(c) &&
	       pump_grants(c);
}

/* An EXEC that is asked about may have to be sent again, before all with a higher id. */
static bool pump_all_control(struct session *s)
{
	bool asking = false;

	for (unsigned i = 0; i < s->n_operations; i++) {
		struct command *c = s->operations[i];

		if (c->asking == TO_ASK && !resume_query(c))
			return false;
		asking |= c->asking != SETTLED;
		if (c->asking != SETTLED || (c->state == UNSENT && asking))
			continue;
		if (!pump_control(c))
			return false;
	}
	return true;
}

static bool is_fed(const struct command *c)
{
	return c->state != UNSENT && c->asking == SETTLED && input_waits(&c->input);
}

/* The one whose turn it is: the next higher id than the last, or the lowest. */
static struct command *next_fed(const struct session *s)
{
	struct command *lowest = NULL;

	for (unsigned i = 0; i < s->n_operations; i++) {
		struct command *c = s->operations[i];

		if (!is_fed(c))
			continue;
		if (c->id > s->fed)
			return c;
		if (!lowest)
			lowest = c;
	}
	return lowest;
}

/* One chunk of somebody's input. */
static void pump_input(struct session *s)
{
	uint8_t *space = outbox_bulk_space(&s->out);
	struct command *c = space ? next_fed(s) : NULL;
	size_t n;

	if (!c)
		return;
	n = input_next(&c->input, space);
	s->fed = c->id;
	outbox_bulk(&s->out, &(struct frame){
				     .type = MSG_DATA,
				     .flags = c->input.end_sent ? FRAME_EOF : 0,
				     .stream = stream_of(c->id, PART_STDIN),
				     .tag = s->tag,
				     .body = { NULL, n },
			     });
}

static bool pump_ack(struct session *s, uint32_t id)
{
	return pump_queue(s, MSG_ACK, id, PART_CONTROL, bytes_of(NULL, 0));
}

/* A slot is free for a new command only when the guest knows: ACK goes before EXEC. */
static bool pump_acks(struct session *s)
{
	for (; s->ack_again; s->ack_again--)
		if (!pump_ack(s, s->acked[(s->n_acked - s->ack_again) % OPERATIONS_MAX]))
			return false;
	while (s->n_acks) {
		if (!pump_ack(s, s->acks[0]))
			return false;
		s->acked[s->n_acked++ % OPERATIONS_MAX] = s->acks[0];
		s->n_acks--;
		memmove(s->acks, s->acks + 1, s->n_acks * sizeof(s->acks[0]));
	}
	return true;
}

void session_pump(struct session *s)
{
	if (s->phase == OPEN && !s->stopping && pump_acks(s) && pump_all_control(s))
		pump_input(s);
}
