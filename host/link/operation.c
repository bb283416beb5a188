/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands and transfers. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#include "base/xalloc.h"

struct command *operation_new(struct session *s, uint16_t type, uint8_t *opener, size_t opener_len,
	bool waits, struct err *err)
{
	struct command *c;
	bool ok = session_usable(s, err);

	if (ok && s->phase == FROZEN && !waits)
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
	c->input.to_send = STREAM_WINDOW;
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
	c->result.stdout_bytes = c->output[0].bytes;
	c->result.stderr_bytes = c->output[1].bytes;
	input_release(&c->input);
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

void operation_lose(struct command *c, const char *why, bool acknowledge)
{
	c->result.end = COMMAND_LOST;
	(void)snprintf(c->result.text, sizeof(c->result.text), "%s", why);
	operation_end(c, acknowledge);
}

void operations_lose(struct session *s, const char *why)
{
	while (s->n_operations)
		operation_lose(s->operations[s->n_operations - 1], why, false);
	s->n_acks = s->n_acked = s->ack_again = 0;
}

void operation_consumed(struct command *c, enum stream_part part, size_t len)
{
	struct output *o = &c->output[part - PART_STDOUT];

	assert(len <= o->held && "more used up than came");
	o->held -= len;
	o->grant += credit_consumed(&o->credit, len);
}
