/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the guest says, judged: whether it may say it now, about this operation, in these words.
 *
 * Every take_x returns NULL, or how the guest broke the protocol.
 */
#include <stdlib.h>
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
	if (c->state == STARTED && !c->unsure)
		return "for what had started";
	c->state = STARTED;
	c->unsure = false;
	free(c->opener);
	c->opener = NULL;
	return NULL;
}

static const char *take_failed(struct command *c, const struct frame *untrusted)
{
	struct msg_failed m;

	if (!get_failed(untrusted->body, &m))
		return MALFORMED;
	/* A transfer fails at any time. */
	if (c->type == MSG_EXEC && c->state == STARTED && !c->unsure)
		return "for a command that had started";
	c->result.end = COMMAND_FAILED;
	c->result.kind = (enum fail_kind)m.kind;
	printable(c->result.text, sizeof(c->result.text),
		m.text.len ? m.text : bytes_str(strerror((int)m.error)));
	operation_end(c, false);
	return NULL;
}

static bool has_output(const struct command *c, enum stream_part part)
{
	if (c->state != STARTED || c->type == MSG_PUT)
		return false;
	return part == PART_STDOUT || (c->type == MSG_EXEC && !c->pty);
}

static const char *take_data(struct command *c, const struct frame *untrusted)
{
	struct session *s = c->session;
	enum stream_part part = stream_part(untrusted->stream);
	struct output *o = &c->output[part - PART_STDOUT];
	size_t len = untrusted->body.len, used = len;
	uint32_t id = c->id;

	if (!has_output(c, part))
		return "of no command that had started";
	if (o->ended)
		return "after the end of the stream";
	if (!credit_spend(&o->credit, len))
		return "more bytes than there was credit for";
	o->ended = untrusted->flags & FRAME_EOF;
	o->bytes += len;
	o->held += len;
	if (len && c->take)
		used = c->take(c->self, part, untrusted->body.data, len);
	/* The callback may have forgotten the command, which paid for all, or ended it. */
	if (operation_find(s, id) == c)
		operation_consumed(c, part, c->forgotten ? o->held : used);
	return NULL;
}

static const char *take_credit(struct command *c, const struct frame *untrusted)
{
	struct msg_credit m;

	if (!get_credit(untrusted->body, &m))
		return MALFORMED;
	/* STATUS will hold the whole of it. */
	if (c->asking != SETTLED)
		return NULL;
	if (!c->input.open || !credit_grant(&c->input.to_send, m.bytes))
		return "for more than was sent";
	return NULL;
}

static const char *check_total(
	const struct command *c, const struct output *o, uint64_t total, uint64_t cut)
{
	if (total != o->bytes + o->lost)
		return "totals that differ from what came";
	if (c->output_max ? total > c->output_max || (cut && total < c->output_max) : cut > 0)
		return "totals that differ from what was wanted";
	return NULL;
}

static void take_left(struct command_result *result, const struct msg_exit *m)
{
	result->left_behind = m->left_behind;
	result->listed = m->listed;
	for (unsigned i = 0; i < m->listed; i++) {
		result->left[i].pid = m->left[i].pid;
		printable(result->left[i].name, sizeof(result->left[i].name), m->left[i].name);
	}
}

static const char *take_exit(struct command *c, const struct frame *untrusted)
{
	struct command_result *result = &c->result;
	const char *fault;
	struct msg_exit m;

	if (!get_exit(untrusted->body, &m) || ((m.flags & EXIT_SIGNALLED) && !m.value))
		return MALFORMED;
	if (c->type != MSG_EXEC || c->state != STARTED)
		return "for no command that had started";
	fault = check_total(c, &c->output[0], m.stdout_bytes, m.stdout_cut);
	if (!fault)
		fault = check_total(c, &c->output[1], m.stderr_bytes, m.stderr_cut);
	if (fault)
		return fault;
	result->end = m.flags & EXIT_SIGNALLED ? COMMAND_SIGNALLED : COMMAND_EXITED;
	result->value = m.value;
	result->timed_out = m.flags & EXIT_TIMED_OUT;
	result->cancelled = m.flags & EXIT_CANCELLED;
	result->stdout_cut = m.stdout_cut;
	result->stderr_cut = m.stderr_cut;
	take_left(result, &m);
	operation_end(c, true);
	return NULL;
}

static const char *take_done(struct command *c, const struct frame *untrusted)
{
	bool get = c->type == MSG_GET;
	uint64_t bytes = get ? c->output[0].bytes : c->input.sent;
	struct msg_done m;

	if (!get_done(untrusted->body, &m))
		return MALFORMED;
	if (c->type == MSG_EXEC || c->state != STARTED ||
		!(get ? c->output[0].ended : c->input.end_sent))
		return "for no transfer that was about to end";
	if (!c->forgotten && m.bytes != bytes)
		return "a size that differs from that of the stream";
	c->done = m;
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

/* In 1/10000; false: more than all. */
static bool take_share(uint16_t untrusted, double *ret_share)
{
	*ret_share = untrusted == PRESSURE_UNKNOWN ? -1 : untrusted / 10000.0;
	return untrusted == PRESSURE_UNKNOWN || untrusted <= 10000;
}

static const char *take_pong(struct session *s, struct bytes untrusted_body)
{
	struct guest_health health;
	const char *fault;
	struct msg_pong m;

	if (!get_pong(untrusted_body, &m) || m.operations > OPERATIONS_MAX ||
		!take_share(m.cpu, &health.cpu) || !take_share(m.memory, &health.memory) ||
		!take_share(m.io, &health.io))
		return MALFORMED;
	if (m.token != s->ping_token + 1 - s->requests[REQUEST_PING].owed)
		return "a token that is not the next one";
	health.uptime_ms = m.uptime_ms;
	health.operations = m.operations;
	s->health = health;
	fault = answered(s, REQUEST_PING, 0);
	if (!fault && s->pong)
		s->pong(s->pong_self, &m);
	return fault;
}

#define CONTROL (1u << PART_CONTROL)
#define OUTPUT	(1u << PART_STDOUT | 1u << PART_STDERR)

/* Who takes what, and on which parts of a stream; without parts it is about the session. */
static const struct {
	unsigned parts, flags;
	bool before_status; /* also before the STATUS that was asked for */
	const char *(*operation)(struct command *c, const struct frame *untrusted);
	const char *(*session)(struct session *s, struct bytes untrusted_body);
} rules[] = {
	[MSG_STARTED] = { CONTROL, 0, true, .operation = take_started },
	[MSG_FAILED] = { CONTROL, 0, true, .operation = take_failed },
	[MSG_EXIT] = { CONTROL, 0, false, .operation = take_exit },
	[MSG_DONE] = { CONTROL, 0, false, .operation = take_done },
	[MSG_STATUS] = { CONTROL, 0, true, .operation = resume_status },
	[MSG_DATA] = { OUTPUT, FRAME_EOF, false, .operation = take_data },
	[MSG_CREDIT] = { 1u << PART_STDIN, 0, true, .operation = take_credit },
	[MSG_PREPARED] = { .session = take_prepared },
	[MSG_HEALED] = { .session = take_healed },
	[MSG_PONG] = { .session = take_pong },
};

const char *judge_frame(struct session *s, const struct frame *untrusted)
{
	uint32_t id = stream_id(untrusted->stream);
	unsigned type = untrusted->type;
	void (*told)(void *self, const struct frame *checked);
	const char *fault;
	struct command *c;
	void *self;

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
	if (c->asking != SETTLED && !rules[type].before_status)
		return "before its STATUS";
	told = c->told;
	self = c->self;
	fault = rules[type].operation(c, untrusted);
	/* A relayed one is there until its caller frees it, but a forgotten one is not. */
	if (!fault && told)
		told(self, untrusted);
	return fault;
}
