/* SPDX-License-Identifier: Apache-2.0 */
/* Commands as callers see them: start, feed, watch, cancel, forget. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#include "base/xalloc.h"

/* Fills strings[] from a NULL-ended vector. False: more than max. */
static bool take_vector(
	const char *const *vector, struct bytes *strings, uint16_t max, uint16_t *ret_n)
{
	uint16_t n = 0;

	for (; vector && vector[n]; n++) {
		if (n == max)
			return false;
		strings[n] = bytes_str(vector[n]);
	}
	*ret_n = n;
	return true;
}

static bool fill_exec(const struct command_spec *spec, struct msg_exec *m, struct err *err)
{
	m->flags =
		(uint16_t)((spec->input || spec->stream_input ? EXEC_STDIN : 0) |
			   (spec->agent_root ? EXEC_AGENT_ROOT : 0) | (spec->pty ? EXEC_PTY : 0));
	m->rows = spec->pty ? spec->rows : 0;
	m->columns = spec->pty ? spec->columns : 0;
	m->deadline_ms = spec->deadline_ms;
	m->grace_ms = spec->grace_ms;
	m->output_max = spec->output_max;
	m->user = bytes_str(spec->user ? spec->user : "");
	m->dir = bytes_str(spec->dir ? spec->dir : "");
	if (!spec->argv || !spec->argv[0] || !spec->argv[0][0])
		return err_set(err, ERR_INPUT, "the command is empty: name a program");
	if (m->user.len > USER_LENGTH)
		return err_set(err, ERR_LIMIT,
			"the user's name has %zu bytes, more than the %d of a name", m->user.len,
			USER_LENGTH);
	if (m->dir.len >= PATH_LENGTH)
		return err_set(err, ERR_LIMIT,
			"the directory's path has %zu bytes, more than the %d of a path",
			m->dir.len, PATH_LENGTH - 1);
	if (!take_vector(spec->argv, m->argv, ARGS_MAX, &m->argc))
		return err_set(err, ERR_LIMIT,
			"the command has more than %d arguments: pass them in a file or on stdin",
			ARGS_MAX);
	if (!take_vector(spec->env, m->env, ENV_MAX, &m->envc))
		return err_set(err, ERR_LIMIT,
			"the environment has more than %d variables: leave some out", ENV_MAX);
	return true;
}

/* Returns the body of an EXEC, owned, or NULL. */
static uint8_t *encode(const struct command_spec *spec, size_t *ret_len, struct err *err)
{
	uint8_t body[OPENER_MAX], *owned;
	struct writer w = writer_of(body, sizeof(body));
	struct msg_exec m;
	size_t len;

	if (!fill_exec(spec, &m, err))
		return NULL;
	put_exec(&w, &m);
	if (w.bad) {
		err_set(err, ERR_LIMIT,
			"arguments and environment of the command take more than %d bytes: pass "
			"large data in a file or on stdin",
			OPENER_MAX);
		return NULL;
	}
	len = (size_t)(w.at - body);
	if (hello_split(body, len) != len) {
		err_set(err, ERR_INPUT,
			"the command holds the bytes of a greeting of the channel: pass them in a "
			"file or on stdin");
		return NULL;
	}
	owned = xcalloc(1, len);
	memcpy(owned, body, len);
	*ret_len = len;
	return owned;
}

struct command *command_start(struct session *s, const struct command_spec *spec, struct err *err)
{
	size_t len;
	uint8_t *opener;
	struct command *c;

	assert(!(spec->input && spec->stream_input) && "input comes in one way");
	opener = encode(spec, &len, err);
	if (!opener)
		return NULL;
	c = operation_new(s, MSG_EXEC, opener, len, false, err);
	if (!c)
		return NULL;
	if (spec->input)
		input_borrow(&c->input, spec->input, spec->input_len);
	else if (spec->stream_input)
		input_stream(&c->input, spec->input_wanted);
	c->pty = spec->pty;
	c->output_max = spec->output_max;
	c->take = spec->output;
	c->self = spec->self;
	session_pump(s);
	return c;
}

const struct command_result *command_result(const struct command *c)
{
	return &c->result;
}

void command_consumed(struct command *c, enum stream_part part, size_t len)
{
	if (!c->session)
		return;
	operation_consumed(c, part, len);
	session_pump(c->session);
}

size_t command_input(struct command *c, const void *data, size_t len)
{
	size_t n;

	assert((!c->session || (c->input.buffer && !c->input.end)) && "no input is expected");
	/* Nobody reads it any more. */
	if (!c->session)
		return len;
	n = input_add(&c->input, data, len);
	session_pump(c->session);
	return n;
}

void command_input_end(struct command *c)
{
	if (!c->session)
		return;
	c->input.end = true;
	c->input.wants_room = false;
	session_pump(c->session);
}

void command_signal(struct command *c, int number)
{
	assert(number >= 1 && number <= SIGNALS && "no signal has this number");
	if (!c->session || memchr(c->signals, number, c->n_signals))
		return;
	c->signals[c->n_signals++] = (uint8_t)number;
	session_pump(c->session);
}

void command_resize(struct command *c, uint16_t rows, uint16_t columns)
{
	if (!c->session || !c->pty)
		return;
	c->rows = rows;
	c->columns = columns;
	c->resize = c->resized = true;
	session_pump(c->session);
}

void command_cancel(struct command *c)
{
	if (!c->session)
		return;
	c->cancel = c->cancelled = true;
	session_pump(c->session);
}

void command_free(struct command *c)
{
	if (!c)
		return;
	if (!c->session) {
		free(c);
		return;
	}
	c->forgotten = true;
	if (c->state == UNSENT) {
		operation_end(c, false);
		return;
	}
	c->take = NULL;
	c->told = NULL;
	input_release(&c->input);
	c->n_signals = 0;
	c->resize = c->resized = false;
	operation_consumed(c, PART_STDOUT, c->output[0].held);
	operation_consumed(c, PART_STDERR, c->output[1].held);
	command_cancel(c);
}

bool command_run(struct session *s, const struct command_spec *spec, int64_t deadline,
	struct command_result *ret_result, struct err *err)
{
	struct command *c = command_start(s, spec, err);
	bool ended;

	if (!c)
		return false;
	ended = loop_until(s->loop, operation_ended, c, deadline, err);
	if (ended)
		*ret_result = c->result;
	else
		err_in(err, "waiting for the end of %s", spec->argv[0]);
	command_free(c);
	return ended;
}
