/* SPDX-License-Identifier: Apache-2.0 */
/* One operation of a caller's, from its opener to its end. */
#include <stdlib.h>

#include "base/xalloc.h"
#include "caller.h"

static void keep_output(struct leg *l, const struct frame *f)
{
	struct leg_output *o = &l->output[stream_part(f->stream) - PART_STDOUT];

	/* What was said stays in front until it is half of all, or all. */
	if (o->at > o->waits.len / 2) {
		o->waits.len -= o->at;
		memmove(o->waits.data, o->waits.data + o->at, o->waits.len);
		o->at = 0;
	}
	if (f->body.len)
		buf_add(&o->waits, f->body.data, f->body.len);
	o->end = f->flags & FRAME_EOF;
}

static void take_end(struct leg *l, uint16_t type, struct bytes body)
{
	l->end = type;
	buf_add(&l->end_body, body.data, body.len);
}

/* What the guest says, which the session has judged. */
static void on_told(void *self, const struct frame *f)
{
	struct leg *l = self;
	struct msg_started started;
	struct msg_credit credit;

	if (f->type == MSG_STARTED && get_started(f->body, &started)) {
		l->started = true;
		l->pid = started.pid;
	} else if (f->type == MSG_DATA) {
		keep_output(l, f);
	} else if (f->type == MSG_CREDIT && get_credit(f->body, &credit)) {
		l->input.granted += credit.bytes;
		l->grant += credit.bytes;
	} else if (f->type == MSG_FAILED || f->type == MSG_EXIT || f->type == MSG_DONE) {
		take_end(l, f->type, f->body);
	}
	if (!l->caller->over)
		caller_flush(l->caller);
}

static void fail(struct leg *l, enum fail_kind kind, const char *text)
{
	struct msg_failed m = { .kind = (uint16_t)kind, .text = bytes_str(text) };
	uint8_t body[2 + 4 + 4 + TEXT_MAX];
	struct writer w = writer_of(body, sizeof(body));

	if (m.text.len > TEXT_MAX)
		m.text.len = TEXT_MAX;
	put_failed(&w, &m);
	take_end(l, MSG_FAILED, bytes_of(body, (size_t)(w.at - body)));
}

struct leg *leg_start(struct caller *c, uint32_t id, uint16_t type, struct bytes untrusted_body)
{
	struct leg *l = xcalloc(1, sizeof(*l));
	struct err err;

	*l = (struct leg){ .caller = c, .id = id, .input = credit_new() };
	l->output[0].to_send = l->output[1].to_send = STREAM_WINDOW;
	l->command = relay_start(c->board->session, type, untrusted_body, on_told, l, &err);
	if (!l->command && err.code == ERR_INPUT) {
		free(l);
		return NULL;
	}
	if (!l->command)
		fail(l, FAIL_BUSY, err.text);
	else
		l->has_input = relay_has_input(l->command);
	c->legs[c->n_legs++] = l;
	return l;
}

struct leg *leg_find(const struct caller *c, uint32_t id)
{
	for (unsigned i = 0; i < c->n_legs; i++)
		if (c->legs[i]->id == id)
			return c->legs[i];
	return NULL;
}

void leg_free(struct leg *l)
{
	struct caller *c = l->caller;
	unsigned i = 0;

	while (c->legs[i] != l)
		i++;
	c->n_legs--;
	for (; i < c->n_legs; i++)
		c->legs[i] = c->legs[i + 1];
	command_free(l->command);
	buf_release(&l->output[0].waits);
	buf_release(&l->output[1].waits);
	buf_release(&l->end_body);
	free(l);
}
