/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands and transfers, and what must be sent for them. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#include "base/xalloc.h"

struct command *operation_new(
	struct session *s, uint16_t type, uint8_t *opener, size_t opener_len, struct err *err)
{
	struct command *c;
	bool ok = session_usable(s, err);

	if (ok && s->phase == FROZEN)
		ok = err_set(err, ERR_PEER, "the guest is frozen: heal it first");
	if (ok && s->n_operations + s->n_acks == OPERATIONS_MAX)
		ok = err_set(err, ERR_LIMIT, "%d commands run already: wait until one has ended",
			OPERATIONS_MAX);
	if (ok && s->next_id > OPERATION_ID_MAX)
		ok = err_set(err, ERR_LIMIT, "this session has no more ids: start a new machine");
	if (!ok) {
		free(opener);
		return NULL;
	}
	c = xcalloc(1, sizeof(*c));
	c->session = s;
	c->id = s->next_id++;
	c->type = type;
	c->opener = opener;
	c->opener_len = opener_len;
	c->to_send = STREAM_WINDOW;
	c->output[0].credit = c->output[1].credit = credit_new();
	s->operations[s->n_operations++] = c;
	return c;
}

struct command *operation_find(const struct session *s, uint32_t id)
{
	for (unsigned i = 0; i < s->n_operations; i++)
		if (s->operations[i]->id == id)
			return s->operations[i];
	return NULL;
}

bool operation_ended(const void *command)
{
	return !((const struct command *)command)->session;
}

/* Nothing is sent for it any more, and nothing taken. */
static void leave(struct command *c)
{
	free(c->opener);
	c->opener = NULL;
	c->session = NULL;
	if (c->forgotten)
		free(c);
}

void operation_end(struct command *c, bool acknowledge)
{
	struct session *s = c->session;
	unsigned i = 0;

	while (s->operations[i] != c)
		i++;
	s->n_operations--;
	for (; i < s->n_operations; i++)
		s->operations[i] = s->operations[i + 1];
	if (acknowledge)
		s->acks[s->n_acks++] = c->id;
	leave(c);
}

void operations_lose(struct session *s, const char *why)
{
	for (unsigned i = 0; i < s->n_operations; i++) {
		struct command_result *result = &s->operations[i]->result;

		result->end = COMMAND_LOST;
		(void)snprintf(result->text, sizeof(result->text), "%s", why);
		leave(s->operations[i]);
	}
	s->n_operations = s->n_acks = 0;
}

void operation_consumed(struct command *c, enum stream_part part, size_t len)
{
	struct output *o = &c->output[part - PART_STDOUT];

	assert(len <= o->held && "more used up than came");
	o->held -= len;
	o->grant += credit_consumed(&o->credit, len);
}

static bool queue(
	struct session *s, uint16_t type, uint32_t id, enum stream_part part, struct bytes body)
{
	return outbox_control(&s->out, &(struct frame){
					       .type = type,
					       .stream = stream_of(id, part),
					       .tag = s->tag,
					       .body = body,
				       });
}

static bool pump_grants(struct session *s, struct command *c)
{
	for (int i = 0; i < 2; i++) {
		struct msg_credit m = { c->output[i].grant };
		uint8_t body[sizeof(m)];
		struct writer w = writer_of(body, sizeof(body));

		if (!m.bytes)
			continue;
		put_credit(&w, &m);
		if (!queue(s, MSG_CREDIT, c->id, PART_STDOUT + (unsigned)i,
			    bytes_of(body, sizeof(body))))
			return false;
		c->output[i].grant = 0;
	}
	return true;
}

/* False: no room, so that nothing later may be queued either. */
static bool pump_control(struct session *s, struct command *c)
{
	if (c->state == UNSENT) {
		if (!queue(s, c->type, c->id, PART_CONTROL, bytes_of(c->opener, c->opener_len)))
			return false;
		free(c->opener);
		c->opener = NULL;
		c->state = SENT;
	}
	if (c->cancel) {
		if (!queue(s, MSG_CANCEL, c->id, PART_CONTROL, bytes_of(NULL, 0)))
			return false;
		c->cancel = false;
	}
	return pump_grants(s, c);
}

static bool has_input(const struct command *c)
{
	return c->state != UNSENT && c->has_stdin && !c->eof_sent && (c->to_send || !c->input_len);
}

/* One chunk of somebody's input, in turns. */
static void pump_input(struct session *s)
{
	uint8_t *space = outbox_bulk_space(&s->out);

	for (unsigned i = 0; space && i < s->n_operations; i++) {
		struct command *c = s->operations[(s->turn + i) % s->n_operations];
		size_t n = c->input_len;

		if (!has_input(c))
			continue;
		n = n < BULK_CHUNK ? n : BULK_CHUNK;
		n = n < c->to_send ? n : c->to_send;
		n = hello_split(c->input, n);
		if (n) {
			memcpy(space, c->input, n);
			c->input += n;
		}
		c->input_len -= n;
		c->to_send -= (uint32_t)n;
		c->eof_sent = !c->input_len;
		outbox_bulk(&s->out, &(struct frame){
					     .type = MSG_DATA,
					     .flags = c->eof_sent ? FRAME_EOF : 0,
					     .stream = stream_of(c->id, PART_STDIN),
					     .tag = s->tag,
					     .body = { NULL, n },
				     });
		s->turn = (s->turn + i + 1) % s->n_operations;
		return;
	}
}

void session_pump(struct session *s)
{
	if (s->phase != OPEN || s->stopping)
		return;
	/* A slot is free for a new command only when the guest knows: ACK goes before EXEC. */
	while (s->n_acks) {
		if (!queue(s, MSG_ACK, s->acks[0], PART_CONTROL, bytes_of(NULL, 0)))
			return;
		s->n_acks--;
		memmove(s->acks, s->acks + 1, s->n_acks * sizeof(s->acks[0]));
	}
	for (unsigned i = 0; i < s->n_operations; i++)
		if (!pump_control(s, s->operations[i]))
			return;
	pump_input(s);
}
