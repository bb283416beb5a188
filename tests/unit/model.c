/* SPDX-License-Identifier: Apache-2.0 */
/* A guest as the protocol wants it, for random schedules. */
#include "model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "test.h"

#define PERIOD 251

/* clang-format off */
#define MODEL_SAY(m, CODE, codec, stream, ...)                                                     \
	do {                                                                                       \
		uint8_t body_[256];                                                                \
		struct writer w_ = writer_of(body_, sizeof(body_));                                \
		put_##codec(&w_, &(struct msg_##codec){ __VA_ARGS__ });                            \
		say(m, MSG_##CODE, stream, bytes_of(body_, (size_t)(w_.at - body_)));              \
	} while (0)
/* clang-format on */

uint32_t model_random(struct model *m, uint32_t n)
{
	m->random = m->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(m->random >> 33) % n;
}

void model_check(const struct model *m, bool holds, const char *what)
{
	if (!holds)
		printf("# schedule %" PRIu64 "\n", m->seed);
	test_check(holds, what, __FILE__, __LINE__);
}

#define HOLDS(m, condition) model_check(m, condition, #condition)

const uint8_t *model_pattern(uint32_t id, unsigned part, uint64_t pos)
{
	static uint8_t pattern[PERIOD + MODEL_LENGTH + PAYLOAD_MAX];

	if (!pattern[1])
		for (size_t i = 0; i < sizeof(pattern); i++)
			pattern[i] = (uint8_t)(i % PERIOD);
	return pattern + (pos + id * 5 + part) % PERIOD;
}

static void say(struct model *m, uint16_t type, uint32_t stream, struct bytes body)
{
	const struct frame f = {
		.type = type, .stream = stream, .tag = session_tag(m->nonce), .body = body
	};

	HOLDS(m, outbox_control(&m->out, &f));
}

void model_init(struct model *m, uint64_t seed)
{
	memset(m, 0, sizeof(*m));
	m->fd = -1;
	m->seed = m->random = seed;
}

static void greet(struct model *m, const struct msg_hello *asked)
{
	bool held = m->knows && !memcmp(m->epoch, asked->epoch, sizeof(m->epoch)) && !m->forgetful;
	struct msg_hello answer = *asked;
	uint8_t body[HELLO_BODY];
	struct writer w = writer_of(body, sizeof(body));

	answer.flags = held ? HELLO_HELD : 0;
	memcpy(m->nonce, asked->nonce, sizeof(m->nonce));
	memcpy(m->epoch, asked->epoch, sizeof(m->epoch));
	m->greeted = true;
	m->knows = held || !(asked->flags & HELLO_HELD);
	m->forgetful = false;
	for (unsigned i = 0; i < MODEL_COMMANDS; i++) {
		m->commands[i].resting = true;
		if (!held)
			m->commands[i].known = m->commands[i].ended = false;
	}
	outbox_clear(&m->out);
	put_hello(&w, &answer);
	(void)outbox_control(&m->out,
		&(struct frame){ .type = MSG_HELLO, .body = bytes_of(body, sizeof(body)) });
}

static void say_exit(struct model *m, uint32_t id, const struct model_command *c)
{
	MODEL_SAY(m, EXIT, exit, stream_of(id, PART_CONTROL), .value = 7,
		.stdout_bytes = c->sent[0], .stderr_bytes = c->sent[1]);
}

static void take_exec(struct model *m, uint32_t id, struct model_command *c, struct bytes body)
{
	static struct msg_exec exec;

	HOLDS(m, get_exec(body, &exec));
	HOLDS(m, !c->known && !c->ended);
	HOLDS(m, id > m->highest);
	m->highest = id;
	c->known = true;
	c->resting = false;
	c->has_input = exec.flags & EXEC_STDIN;
	c->in = credit_new();
	c->to_send[0] = c->to_send[1] = STREAM_WINDOW;
	MODEL_SAY(m, STARTED, started, stream_of(id, PART_CONTROL), .pid = id);
}

/* Input goes on where the last ended. */
static void take_data(struct model *m, uint32_t id, struct model_command *c, const struct frame *f)
{
	size_t len = f->body.len;

	HOLDS(m, c->has_input && (!c->end_of_input || !len));
	HOLDS(m, credit_spend(&c->in, len));
	/* Of a forgotten command nobody knows how much is lost. */
	HOLDS(m, !c->host || !memcmp(f->body.data, model_pattern(id, PART_STDIN, c->arrived), len));
	c->arrived += len;
	c->buffered += len;
	c->end_of_input |= (f->flags & FRAME_EOF) != 0;
}

static void take_query(struct model *m, uint32_t id, struct model_command *c, struct bytes body)
{
	struct msg_query query;

	HOLDS(m, get_query(body, &query));
	if (!c->known) {
		MODEL_SAY(m, STATUS, status, stream_of(id, PART_CONTROL), .state = STATUS_UNKNOWN);
		return;
	}
	HOLDS(m, c->resting);
	c->resting = false;
	c->to_send[0] = query.stdout_credit;
	c->to_send[1] = query.stderr_credit;
	c->in = (struct credit){ .granted = (uint32_t)(STREAM_WINDOW - c->buffered) };
	MODEL_SAY(m, STATUS, status, stream_of(id, PART_CONTROL),
		.state = c->ended ? STATUS_ENDED : STATUS_RUNS, .stdin_bytes = c->arrived,
		.stdin_credit = c->in.granted, .stdout_bytes = c->sent[0],
		.stderr_bytes = c->sent[1]);
	if (c->ended)
		say_exit(m, id, c);
}

static void take_credit(struct model *m, struct model_command *c, const struct frame *f)
{
	struct msg_credit credit;

	HOLDS(m, get_credit(f->body, &credit));
	HOLDS(m, credit_grant(&c->to_send[stream_part(f->stream) - PART_STDOUT], credit.bytes));
}

static void take_frame(struct model *m, const struct frame *f)
{
	uint32_t id = stream_id(f->stream);
	struct model_command *c;
	struct msg_hello hello;

	if (f->type == MSG_HELLO && get_hello(f->body, &hello))
		greet(m, &hello);
	if (f->type == MSG_HELLO || !m->greeted || f->tag != session_tag(m->nonce))
		return;
	m->knows = true;
	HOLDS(m, id && id <= MODEL_COMMANDS);
	c = &m->commands[id - 1];
	if (f->type == MSG_EXEC)
		take_exec(m, id, c, f->body);
	else if (f->type == MSG_QUERY)
		take_query(m, id, c, f->body);
	else if (f->type == MSG_ACK && c->ended)
		c->acknowledged = true;
	else if (!c->known || c->acknowledged)
		return;
	else if (f->type == MSG_DATA)
		take_data(m, id, c, f);
	else if (f->type == MSG_CREDIT)
		take_credit(m, c, f);
	else if (f->type == MSG_CANCEL)
		c->cancelled = true;
	else
		model_check(m, false, "a message that no command of this test needs");
}

void model_read(struct model *m, size_t max)
{
	struct frame f;
	size_t room;
	uint8_t *at = inbox_space(&m->in, &room);
	ssize_t n = recv(m->fd, at, room < max ? room : max, MSG_DONTWAIT);

	if (n <= 0)
		return;
	inbox_filled(&m->in, (size_t)n);
	while (inbox_next(&m->in, &f))
		take_frame(m, &f);
}

void model_write(struct model *m, size_t max)
{
	struct bytes next = outbox_peek(&m->out);
	ssize_t n;

	if (!next.len)
		return;
	n = send(m->fd, next.data, next.len < max ? next.len : max, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0)
		outbox_wrote(&m->out, (size_t)n);
}

void model_attach(struct model *m, int fd)
{
	if (m->fd >= 0)
		model_read(m, model_random(m, 100000));
	fd_close(&m->fd);
	m->fd = fd;
	m->greeted = false;
	m->forgetful = !model_random(m, 5);
	inbox_clear(&m->in);
	outbox_clear(&m->out);
}

static void work_input(struct model *m, uint32_t id, struct model_command *c, uint32_t max)
{
	size_t n = c->buffered < max ? c->buffered : max;
	uint32_t grant = credit_consumed(&c->in, n);

	c->buffered -= n;
	if (grant)
		MODEL_SAY(m, CREDIT, credit, stream_of(id, PART_STDIN), .bytes = grant);
}

static void work_output(
	struct model *m, uint32_t id, struct model_command *c, unsigned i, uint32_t max)
{
	uint8_t *space = outbox_bulk_space(&m->out);
	uint64_t n = c->length[i] - c->sent[i];

	n = n < max ? n : max;
	n = n < BULK_CHUNK ? n : BULK_CHUNK;
	n = n < c->to_send[i] ? n : c->to_send[i];
	if (!space || !n)
		return;
	memcpy(space, model_pattern(id, PART_STDOUT + i, c->sent[i]), n);
	c->sent[i] += n;
	c->to_send[i] -= (uint32_t)n;
	outbox_bulk(&m->out, &(struct frame){ .type = MSG_DATA,
				     .stream = stream_of(id, PART_STDOUT + i),
				     .tag = session_tag(m->nonce),
				     .body = { NULL, n } });
}

void model_work(struct model *m, unsigned i, uint32_t max)
{
	struct model_command *c = &m->commands[i];
	bool done = c->sent[0] == c->length[0] && c->sent[1] == c->length[1] &&
		    (!c->has_input || (c->end_of_input && !c->buffered));

	/* EXIT overtakes no DATA. */
	if (!m->greeted || !c->known || c->ended || c->resting)
		return;
	if (c->buffered)
		work_input(m, i + 1, c, max);
	work_output(m, i + 1, c, model_random(m, 2), max);
	if ((done || c->cancelled) && !m->out.bulk_len) {
		c->ended = true;
		say_exit(m, i + 1, c);
	}
}
