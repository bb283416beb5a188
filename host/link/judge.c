/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the guest says, judged: whether it may say it now, about this operation, in these words.
 *
 * Every take_x returns NULL, or how the guest broke the protocol.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define MALFORMED "a malformed body"

static void printable(char *out, size_t size, struct bytes untrusted)
{
	size_t n = untrusted.len < size ? untrusted.len : size - 1;

	for (size_t i = 0; i < n; i++) {
		uint8_t c = untrusted.data[i];

		out[i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
	}
	out[n] = 0;
}

static const char *take_started(struct command *c, const struct frame *untrusted)
{
	struct msg_started m;

	if (!get_started(untrusted->body, &m))
		return MALFORMED;
	if (c->state == STARTED)
		return "for what had started";
	c->state = STARTED;
	return NULL;
}

static const char *take_failed(struct command *c, const struct frame *untrusted)
{
	struct msg_failed m;

	if (!get_failed(untrusted->body, &m))
		return MALFORMED;
	/* A transfer fails at any time. */
	if (c->type == MSG_EXEC && c->state == STARTED)
		return "for a command that had started";
	c->result.end = COMMAND_FAILED;
	c->result.kind = (enum fail_kind)m.kind;
	printable(c->result.text, sizeof(c->result.text),
		m.text.len ? m.text : bytes_str(strerror((int)m.error)));
	operation_end(c, false);
	return NULL;
}

static const char *take_data(struct command *c, const struct frame *untrusted)
{
	enum stream_part part = stream_part(untrusted->stream);
	struct output *o = &c->output[part - PART_STDOUT];
	size_t len = untrusted->body.len, used = len;

	if (c->type != MSG_EXEC || c->state != STARTED)
		return "of no command that had started";
	if (!credit_spend(&o->credit, len))
		return "more bytes than there was credit for";
	o->bytes += len;
	o->held += len;
	if (len && c->take)
		used = c->take(c->self, part, untrusted->body.data, len);
	/* The callback may have forgotten the command, which paid for all. */
	operation_consumed(c, part, c->forgotten ? o->held : used);
	return NULL;
}

static const char *take_credit(struct command *c, const struct frame *untrusted)
{
	struct msg_credit m;

	if (!get_credit(untrusted->body, &m))
		return MALFORMED;
	if (!c->has_stdin || !credit_grant(&c->to_send, m.bytes))
		return "for more than was sent";
	return NULL;
}

static const char *take_exit(struct command *c, const struct frame *untrusted)
{
	struct command_result *result = &c->result;
	struct msg_exit m;

	if (!get_exit(untrusted->body, &m) || ((m.flags & EXIT_SIGNALLED) && !m.value))
		return MALFORMED;
	if (c->type != MSG_EXEC || c->state != STARTED)
		return "for no command that had started";
	if (m.stdout_bytes != c->output[0].bytes || m.stderr_bytes != c->output[1].bytes)
		return "totals that differ from what came";
	result->end = m.flags & EXIT_SIGNALLED ? COMMAND_SIGNALLED : COMMAND_EXITED;
	result->value = m.value;
	result->timed_out = m.flags & EXIT_TIMED_OUT;
	result->cancelled = m.flags & EXIT_CANCELLED;
	result->stdout_bytes = m.stdout_bytes;
	result->stderr_bytes = m.stderr_bytes;
	result->left_behind = m.left_behind;
	operation_end(c, true);
	return NULL;
}

static const char *take_put_done(struct command *c, const struct frame *untrusted)
{
	struct msg_put_done m;

	if (!get_put_done(untrusted->body, &m))
		return MALFORMED;
	if (c->type != MSG_PUT || c->state != STARTED || !c->eof_sent)
		return "for no transfer that was about to end";
	if (!c->forgotten && m.size != c->put_size)
		return "a size that differs from what was sent";
	c->result.end = COMMAND_EXITED;
	operation_end(c, true);
	return NULL;
}

/* Answers come in the order of the requests, so one that nobody waits for is a fault. */
static const char *answered(struct session *s, enum request request, uint32_t error)
{
	if (!s->requests[request].owed)
		return "an answer to nothing";
	s->requests[request].owed--;
	s->requests[request].error = error;
	return NULL;
}

static const char *take_prepared(struct session *s, struct bytes untrusted_body)
{
	struct msg_prepared m;
	const char *fault;

	if (!get_prepared(untrusted_body, &m))
		return MALFORMED;
	fault = answered(s, REQUEST_PREPARE, m.error);
	if (!fault) {
		s->phase = m.error ? OPEN : FROZEN;
		s->stopping = s->requests[REQUEST_PREPARE].owed > 0;
	}
	return fault;
}

static const char *take_healed(struct session *s, struct bytes untrusted_body)
{
	struct msg_healed m;

	if (!get_healed(untrusted_body, &m))
		return MALFORMED;
	return answered(s, REQUEST_HEAL, m.error);
}

static const char *take_pong(struct session *s, struct bytes untrusted_body)
{
	struct msg_ping m;

	if (!get_ping(untrusted_body, &m))
		return MALFORMED;
	if (m.token != s->ping_token + 1 - s->requests[REQUEST_PING].owed)
		return "a token that is not the next one";
	return answered(s, REQUEST_PING, 0);
}

#define CONTROL (1u << PART_CONTROL)
#define OUTPUT	(1u << PART_STDOUT | 1u << PART_STDERR)

/* Who takes what, and on which parts of a stream; without parts it is about the session. */
static const struct {
	unsigned parts, flags;
	const char *(*operation)(struct command *c, const struct frame *untrusted);
	const char *(*session)(struct session *s, struct bytes untrusted_body);
} rules[] = {
	[MSG_STARTED] = { CONTROL, 0, .operation = take_started },
	[MSG_FAILED] = { CONTROL, 0, .operation = take_failed },
	[MSG_EXIT] = { CONTROL, 0, .operation = take_exit },
	[MSG_PUT_DONE] = { CONTROL, 0, .operation = take_put_done },
	[MSG_DATA] = { OUTPUT, FRAME_EOF, .operation = take_data },
	[MSG_CREDIT] = { 1u << PART_STDIN, 0, .operation = take_credit },
	[MSG_PREPARED] = { 0, 0, .session = take_prepared },
	[MSG_HEALED] = { 0, 0, .session = take_healed },
	[MSG_PONG] = { 0, 0, .session = take_pong },
};

const char *judge_frame(struct session *s, const struct frame *untrusted)
{
	uint32_t id = stream_id(untrusted->stream);
	unsigned type = untrusted->type;
	struct command *c;

	if (!message_known(type))
		return NULL;
	if (!message_legal(type, FROM_GUEST, s->phase))
		return "not legal now";
	if (untrusted->flags & ~rules[type].flags)
		return "unknown flags";
	if (rules[type].session)
		return untrusted->stream ? "a stream where none belongs"
					 : rules[type].session(s, untrusted->body);
	if (!(rules[type].parts & 1u << stream_part(untrusted->stream)))
		return "the wrong part of a stream";
	if (!id || id >= s->next_id)
		return "about a command that was never given";
	c = operation_find(s, id);
	/* What comes late, after the end, is normal and of no interest. */
	if (!c)
		return NULL;
	if (c->state == UNSENT)
		return "about a command that was never given";
	return rules[type].operation(c, untrusted);
}
