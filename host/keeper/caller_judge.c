/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a caller says, judged: whether he may say it now, about this operation, in these words.
 *
 * Every take_x returns NULL, or how he broke the protocol.
 */
#include "caller.h"

#define MALFORMED "a malformed body"

static const char *take_opener(struct caller *c, const struct frame *untrusted)
{
	uint32_t id = stream_id(untrusted->stream);

	if (id <= c->last_id)
		return "an id that is not higher than all before";
	if (c->n_legs == LEGS_MAX)
		return "more operations than anybody needs";
	c->last_id = id;
	return leg_start(c, id, untrusted->type, untrusted->body) ? NULL : MALFORMED;
}

static const char *take_data(struct leg *l, const struct frame *untrusted)
{
	size_t len = untrusted->body.len;

	if (!l->command)
		return NULL;
	if (!l->has_input)
		return "for what reads nothing";
	if (!credit_spend(&l->input, len))
		return "more bytes than there was credit for";
	if (l->input_ended)
		return len ? "after the end of the stream" : NULL;
	if (len && command_input(l->command, untrusted->body.data, len) != len)
		return "more bytes than there is room for";
	if (untrusted->flags & FRAME_EOF) {
		l->input_ended = true;
		command_input_end(l->command);
	}
	return NULL;
}

static const char *take_credit(struct leg *l, const struct frame *untrusted)
{
	enum stream_part part = stream_part(untrusted->stream);
	struct msg_credit m;

	if (!get_credit(untrusted->body, &m))
		return MALFORMED;
	if (!credit_grant(&l->output[part - PART_STDOUT].to_send, m.bytes))
		return "for more than was sent";
	if (l->command)
		command_consumed(l->command, part, m.bytes);
	return NULL;
}

static const char *take_cancel(struct leg *l, const struct frame *untrusted)
{
	if (untrusted->body.len)
		return MALFORMED;
	if (l->command)
		command_cancel(l->command);
	return NULL;
}

static const char *take_ack(struct leg *l, const struct frame *untrusted)
{
	if (untrusted->body.len)
		return MALFORMED;
	if (!l->end_said)
		return "of what has not ended";
	leg_free(l);
	return NULL;
}

static const char *take_signal(struct leg *l, const struct frame *untrusted)
{
	struct msg_signal m;

	if (!get_signal(untrusted->body, &m))
		return MALFORMED;
	if (l->command)
		command_signal(l->command, m.number);
	return NULL;
}

static const char *take_resize(struct leg *l, const struct frame *untrusted)
{
	struct msg_resize m;

	if (!get_resize(untrusted->body, &m))
		return MALFORMED;
	if (l->command)
		command_resize(l->command, m.rows, m.columns);
	return NULL;
}

/* There is a place: a caller who has none free is not read. */
static const char *take_ping(struct caller *c, struct bytes untrusted_body)
{
	struct msg_ping m;

	if (!get_ping(untrusted_body, &m))
		return MALFORMED;
	c->pings[c->n_pings++] = (struct ping){ .token = m.token };
	return NULL;
}

#define CONTROL (1u << PART_CONTROL)
#define INPUT	(1u << PART_STDIN)
#define OUTPUT	(1u << PART_STDOUT | 1u << PART_STDERR)

/* What is not here is not a caller's to say. */
static const struct {
	unsigned parts, flags;
	const char *(*opener)(struct caller *c, const struct frame *untrusted);
	const char *(*leg)(struct leg *l, const struct frame *untrusted);
	const char *(*session)(struct caller *c, struct bytes untrusted_body);
} rules[] = {
	[MSG_EXEC] = { CONTROL, 0, .opener = take_opener },
	[MSG_PUT] = { CONTROL, 0, .opener = take_opener },
	[MSG_GET] = { CONTROL, 0, .opener = take_opener },
	[MSG_DATA] = { INPUT, FRAME_EOF, .leg = take_data },
	[MSG_CREDIT] = { OUTPUT, 0, .leg = take_credit },
	[MSG_CANCEL] = { CONTROL, 0, .leg = take_cancel },
	[MSG_ACK] = { CONTROL, 0, .leg = take_ack },
	[MSG_SIGNAL] = { CONTROL, 0, .leg = take_signal },
	[MSG_RESIZE] = { CONTROL, 0, .leg = take_resize },
	[MSG_PING] = { .session = take_ping },
};

const char *caller_judge(struct caller *c, const struct frame *untrusted)
{
	uint32_t id = stream_id(untrusted->stream);
	unsigned type = untrusted->type;
	struct leg *l;

	if (!message_known(type))
		return NULL;
	if (type >= sizeof(rules) / sizeof(*rules) ||
		(!rules[type].opener && !rules[type].leg && !rules[type].session))
		return "not a caller's to say";
	if (untrusted->flags & ~rules[type].flags)
		return "unknown flags";
	if (rules[type].session)
		return untrusted->stream ? "a stream where none belongs"
					 : rules[type].session(c, untrusted->body);
	if (!id || !(rules[type].parts & 1u << stream_part(untrusted->stream)))
		return "the wrong part of a stream";
	if (rules[type].opener)
		return rules[type].opener(c, untrusted);
	if (id > c->last_id)
		return "about a command that was never given";
	l = leg_find(c, id);
	/* What comes late, after the end, is normal and of no interest. */
	return l ? rules[type].leg(l, untrusted) : NULL;
}
