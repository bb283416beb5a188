/* SPDX-License-Identifier: Apache-2.0 */
/* Find the operation a message is about, and share the bulk slot out. */
#include "operations.h"

#include <errno.h>
#include <string.h>

/* Bytes for the standard input of each. Only those in use are ever touched. */
static uint8_t rings[OPERATIONS_MAX][STREAM_WINDOW];

void operations_init(struct operations *ops, bool enter_system, bool ready, int null)
{
	*ops = (struct operations){ .enter_system = enter_system, .ready = ready, .null = null };
}

static struct operation *named(struct operations *ops, const struct frame *f)
{
	const uint32_t id = stream_id(f->stream);

	for (size_t i = 0; id && i < ops->used; i++)
		if (ops->all[i].kind && ops->all[i].id == id)
			return &ops->all[i];
	return NULL;
}

static struct operation *free_place(struct operations *ops)
{
	for (size_t i = 0; i < OPERATIONS_MAX; i++)
		if (!ops->all[i].kind)
			return &ops->all[i];
	return NULL;
}

/* Messages about a whole operation name it like this. */
static bool names_operation(const struct frame *f)
{
	return stream_id(f->stream) && stream_part(f->stream) == PART_CONTROL && !f->flags;
}

/* Fills in what the message asks for. */
static bool read_request(const struct frame *f, struct request *r, uint16_t *ret_flags)
{
	static struct msg_exec exec;
	struct msg_get get;
	struct msg_put put;

	r->kind = (enum message)f->type;
	switch (f->type) {
	case MSG_EXEC:
		r->exec = &exec;
		return get_exec(f->body, &exec) && (*ret_flags = exec.flags, true);
	case MSG_GET:
		if (!get_get(f->body, &get))
			return false;
		r->path = get.path;
		r->manifest = get.flags & TREE_MANIFEST;
		*ret_flags = get.flags;
		return true;
	default:
		if (!get_put(f->body, &put))
			return false;
		r->path = put.path;
		*ret_flags = put.flags;
		return true;
	}
}

static bool start(struct operations *ops, size_t place, uint32_t id, const struct request *r)
{
	if (!operation_start(&ops->all[place], id, r, rings[place]))
		return false;
	ops->used = place < ops->used ? ops->used : place + 1;
	return true;
}

bool operations_begin(struct operations *ops, struct session *s, const struct frame *f)
{
	const uint32_t id = stream_id(f->stream);
	struct operation *o = named(ops, f), *place = free_place(ops);
	struct request r = { .null = ops->null };
	uint16_t flags = 0;

	if (!names_operation(f) || !read_request(f, &r, &flags))
		return false;
	r.enter_system =
		ops->enter_system &&
		!(flags & (r.exec ? (unsigned)EXEC_AGENT_ROOT : (unsigned)TREE_AGENT_ROOT));
	if (o && o->kind == r.kind)
		operation_repeat(o);
	else if (o)
		session_fail(s, id, FAIL_BUSY, 0, "the id is taken");
	else if (r.enter_system && !ops->ready)
		session_fail(s, id, FAIL_NOT_READY, 0, "the system is not up yet");
	else if (!place)
		session_fail(s, id, FAIL_BUSY, 0, "too many operations at a time");
	else if (!start(ops, (size_t)(place - ops->all), id, &r))
		session_fail(s, id, FAIL_RESOURCES, errno, strerror(errno));
	return true;
}

bool operations_data(struct operations *ops, struct session *s, const struct frame *f)
{
	struct operation *o = named(ops, f);

	(void)s;
	if (!stream_id(f->stream) || stream_part(f->stream) != PART_STDIN ||
		(f->flags & ~FRAME_EOF))
		return false;
	ops->received = ops->received || !o || o->kind == MSG_PUT;
	return !o || input_take(&o->in, f->body, f->flags & FRAME_EOF);
}

bool operations_credit(struct operations *ops, struct session *s, const struct frame *f)
{
	enum stream_part part = stream_part(f->stream);
	struct operation *o = named(ops, f);
	struct msg_credit m;

	(void)s;
	if (!stream_id(f->stream) || (part != PART_STDOUT && part != PART_STDERR) || f->flags ||
		!get_credit(f->body, &m))
		return false;
	return !o || credit_grant(&o->out[part - PART_STDOUT].credit, m.bytes);
}

bool operations_cancel(struct operations *ops, struct session *s, const struct frame *f)
{
	struct operation *o = named(ops, f);

	(void)s;
	if (!names_operation(f) || f->body.len)
		return false;
	if (o)
		operation_stop(o, EXIT_CANCELLED);
	return true;
}

bool operations_signal(struct operations *ops, struct session *s, const struct frame *f)
{
	struct operation *o = named(ops, f);
	struct msg_signal m;

	(void)s;
	if (!names_operation(f) || !get_signal(f->body, &m))
		return false;
	if (o)
		operation_signal(o, m.number);
	return true;
}

bool operations_resize(struct operations *ops, struct session *s, const struct frame *f)
{
	struct operation *o = named(ops, f);
	struct msg_resize m;

	(void)s;
	if (!names_operation(f) || !get_resize(f->body, &m))
		return false;
	if (o)
		operation_resize(o, &m);
	return true;
}

bool operations_query(struct operations *ops, struct session *s, const struct frame *f)
{
	struct operation *o = named(ops, f);
	struct msg_query m;

	if (!names_operation(f) || !get_query(f->body, &m))
		return false;
	if (o)
		operation_resume(o, &m, s);
	else
		SEND(s, STATUS, status, f->stream, .state = STATUS_UNKNOWN);
	return true;
}

bool operations_ack(struct operations *ops, struct session *s, const struct frame *f)
{
	struct operation *o = named(ops, f);

	(void)s;
	if (!names_operation(f) || f->body.len)
		return false;
	if (!o)
		return true;
	if (!o->ended)
		return false;
	operation_release(o);
	return true;
}

bool operations_reaped(struct operations *ops, pid_t pid, int status)
{
	for (size_t i = 0; i < ops->used; i++) {
		struct operation *o = &ops->all[i];

		if (o->kind && o->pid == pid && !o->reaped) {
			operation_reaped(o, status);
			return true;
		}
	}
	return false;
}

void operations_wants(struct operations *ops, const struct session *s, struct loop *loop)
{
	for (size_t i = 0; i < ops->used; i++)
		if (ops->all[i].kind)
			operation_wants(&ops->all[i], s, loop);
}

/* Two chunks of each output that has them, in turns; then what the host says is heard first. */
static void pump_all(struct operations *ops, struct session *s, struct port *port)
{
	const size_t outputs = 2 * ops->used;

	for (size_t i = 0; i < 2 * outputs; i++) {
		size_t n = (ops->turn + i) % outputs;
		struct operation *o = &ops->all[n / 2];
		enum stream_part part = n % 2 ? PART_STDERR : PART_STDOUT;

		if (!o->kind || !o->started || o->started_due || o->failed)
			continue;
		if (!output_pump(&o->out[n % 2], s, stream_of(o->id, part)))
			continue;
		session_flush(s, port);
		if (!session_quiet(s)) {
			ops->turn = n + 1;
			return;
		}
	}
}

void operations_turn(struct operations *ops, struct session *s, struct port *port)
{
	for (size_t i = 0; i < ops->used; i++) {
		struct operation *o = &ops->all[i];

		if (o->kind && !operation_turn(o, s))
			operation_release(o);
	}
	while (ops->used && !ops->all[ops->used - 1].kind)
		ops->used--;
	if (s->phase == OPEN)
		pump_all(ops, s, port);
}

unsigned operations_running(const struct operations *ops)
{
	unsigned n = 0;

	for (size_t i = 0; i < ops->used; i++)
		n += ops->all[i].kind && !ops->all[i].ended;
	return n;
}

void operations_hold(struct operations *ops)
{
	for (size_t i = 0; i < ops->used; i++) {
		struct operation *o = &ops->all[i];

		if (o->kind == MSG_EXEC)
			operation_hold(o);
		else if (o->kind)
			operation_release(o);
	}
}

void operations_clear(struct operations *ops)
{
	for (size_t i = 0; i < ops->used; i++)
		if (ops->all[i].kind)
			operation_release(&ops->all[i]);
}
