/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations after their channel was attached again.
 *
 * How it works. Each command that was sent is asked about by a QUERY, which says what credit its
 * outputs have now. The STATUS that answers it is judged by what could have been under way: of an
 * output not less than what came, and not more than there was credit for; of the input not less
 * than the guest has paid for, and not more than was sent. Then both sides count from the same
 * numbers, and what is missing between them is sent again or noted as lost.
 */
#include <stdlib.h>

#include "internal.h"

#define UNKNOWN "the guest knows it no more: its outcome is unknown"

void resume_operations(struct session *s, bool held)
{
	/* ACKs that went last may have got lost, and the guest keeps what ended until it has one.
	 * It holds OPERATIONS_MAX at most, so that the last ones are enough. */
	if (!held)
		s->n_acks = s->n_acked = 0;
	s->ack_again = s->n_acked < OPERATIONS_MAX ? s->n_acked : OPERATIONS_MAX;
	for (unsigned i = s->n_operations; i-- > 0;) {
		struct command *c = s->operations[i];

		if (c->state == UNSENT)
			continue;
		if (!held)
			operation_lose(c, UNKNOWN, false);
		else if (c->type != MSG_EXEC)
			operation_lose(
				c, "the channel ended during the transfer: begin it again", true);
		else
			c->asking = TO_ASK;
	}
}

static uint32_t credit_anew(struct output *o)
{
	o->at_risk += o->credit.granted;
	o->grant = 0;
	o->credit = (struct credit){ .granted = (uint32_t)(STREAM_WINDOW - o->held) };
	return o->credit.granted;
}

bool resume_query(struct command *c)
{
	struct output old[2] = { c->output[0], c->output[1] };
	struct msg_query m = { credit_anew(&c->output[0]), credit_anew(&c->output[1]) };
	uint8_t body[sizeof(m)];
	struct writer w = writer_of(body, sizeof(body));

	put_query(&w, &m);
	if (pump_queue(c->session, MSG_QUERY, c->id, PART_CONTROL, bytes_of(body, sizeof(body)))) {
		c->asking = ASKED;
		return true;
	}
	c->output[0] = old[0];
	c->output[1] = old[1];
	return false;
}

/* Both may be said twice. A signal may not: one that was under way is gone. */
static void say_again(struct command *c)
{
	c->cancel = c->cancelled;
	c->resize = c->resized;
}

/* The EXEC never came, so nothing else did. */
static void start_over(struct command *c)
{
	for (int i = 0; i < 2; i++)
		c->output[i] = (struct output){ .credit = credit_new() };
	c->state = UNSENT;
	input_rewind(&c->input, 0, STREAM_WINDOW);
	say_again(c);
}

static const char *check_output(const struct output *o, uint64_t total)
{
	if (total < o->bytes + o->lost)
		return "of less output than came";
	if (total - o->bytes - o->lost > o->at_risk)
		return "of more output than there was credit for";
	return NULL;
}

static const char *check_input(const struct input *in, const struct msg_status *m)
{
	if (m->stdin_bytes > in->sent)
		return "of more input than was sent";
	if (m->stdin_bytes < input_paid(in))
		return "of less input than was paid for";
	return NULL;
}

static void take_output_total(struct command *c, struct output *o, uint64_t total)
{
	uint64_t lost = total - o->bytes - o->lost;

	o->lost += lost;
	o->at_risk = 0;
	o->ended = false;
	c->result.output_lost += lost;
}

static const char *go_on(struct command *c, const struct msg_status *m)
{
	const char *fault = check_output(&c->output[0], m->stdout_bytes);

	if (!fault)
		fault = check_output(&c->output[1], m->stderr_bytes);
	if (!fault)
		fault = check_input(&c->input, m);
	if (fault)
		return fault;
	take_output_total(c, &c->output[0], m->stdout_bytes);
	take_output_total(c, &c->output[1], m->stderr_bytes);
	input_rewind(&c->input, m->stdin_bytes, m->stdin_credit);
	if (c->state != STARTED)
		c->unsure = true;
	c->state = STARTED;
	say_again(c);
	return NULL;
}

const char *resume_status(struct command *c, const struct frame *untrusted)
{
	struct msg_status m;

	if (!get_status(untrusted->body, &m))
		return "a malformed body";
	if (c->asking != ASKED)
		return "that nobody asked for";
	c->asking = SETTLED;
	if (m.state != STATUS_UNKNOWN)
		return go_on(c, &m);
	if (c->state == STARTED || c->forgotten)
		operation_lose(c, UNKNOWN, false);
	else if (input_paid(&c->input))
		return "of no command whose input was paid for";
	else
		start_over(c);
	return NULL;
}
