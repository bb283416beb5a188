/* SPDX-License-Identifier: Apache-2.0 */
/* Find the operation a message is about, and share the bulk slot out. */
#include "operation.h"

#include <errno.h>
#include <string.h>

#define OUTPUTS ((size_t)2 * OPERATIONS_MAX)
#define PASSES	4 /* chunks per output and turn */

/* Bytes for the standard input of each. Only those in use are ever touched. */
static uint8_t rings[OPERATIONS_MAX][STREAM_WINDOW];

void operations_init(struct operations *ops, bool enter_system, bool ready, int null)
{
	*ops = (struct operations){ .enter_system = enter_system, .ready = ready, .null = null };
}

static struct operation *find(struct operations *ops, uint32_t id)
{
	for (size_t i = 0; i < OPERATIONS_MAX; i++)
		if (ops->all[i].kind && ops->all[i].id == id)
			return &ops->all[i];
	return NULL;
}

static struct operation *find_free(struct operations *ops)
{
	for (size_t i = 0; i < OPERATIONS_MAX; i++)
		if (!ops->all[i].kind)
			return &ops->all[i];
	return NULL;
}

static void release(struct operation *op)
{
	if (op->kind == OPERATION_COMMAND)
		command_release(&op->command);
	else if (op->kind == OPERATION_PUT)
		put_release(&op->put);
	op->kind = OPERATION_FREE;
}

/* Messages about a whole operation name it like this. */
static bool names_operation(const struct frame *f)
{
	return stream_id(f->stream) && stream_part(f->stream) == PART_CONTROL && !f->flags;
}

bool operations_exec(struct operations *ops, struct session *s, const struct frame *f)
{
	const uint32_t id = stream_id(f->stream);
	struct operation *op = find(ops, id);
	static struct msg_exec m;
	bool enter;

	if (!names_operation(f) || !get_exec(f->body, &m))
		return false;
	if (op && op->kind != OPERATION_COMMAND)
		return false;
	if (op) {
		command_repeat(&op->command);
		return true;
	}
	enter = ops->enter_system && !(m.flags & EXEC_AGENT_ROOT);
	op = find_free(ops);
	if (enter && !ops->ready) {
		session_fail(s, id, FAIL_NOT_READY, 0, "the system is not up yet");
	} else if (!op) {
		session_fail(s, id, FAIL_BUSY, 0, "too many commands at a time");
	} else {
		command_init(&op->command, rings[op - ops->all]);
		if (command_start(&op->command, &m, enter, ops->null)) {
			op->kind = OPERATION_COMMAND;
			op->id = id;
		} else {
			session_fail(s, id, FAIL_RESOURCES, errno, strerror(errno));
		}
	}
	return true;
}

bool operations_put(struct operations *ops, struct session *s, const struct frame *f)
{
	const uint32_t id = stream_id(f->stream);
	struct operation *op = find(ops, id);
	struct msg_put m;

	if (!names_operation(f) || !get_put(f->body, &m))
		return false;
	if (op && op->kind != OPERATION_PUT)
		return false;
	if (op) {
		/* Still under way: the answer will come. */
		op->put.done_due = op->put.fd < 0;
		return true;
	}
	op = find_free(ops);
	if (!op) {
		session_fail(s, id, FAIL_BUSY, 0, "too many commands at a time");
		return true;
	}
	if (!put_start(&op->put, &m)) {
		session_fail(s, id, FAIL_FILE, errno, strerror(errno));
		return true;
	}
	op->kind = OPERATION_PUT;
	op->id = id;
	SEND(s, STARTED, started, f->stream, .pid = 0);
	return true;
}

static bool put_took(
	struct operations *ops, struct operation *op, struct session *s, const struct frame *f)
{
	struct put *put = &op->put;

	if (put->fd < 0 || !credit_spend(&put->credit, f->body.len))
		return false;
	ops->received = true;
	if (!put_data(put, f->body, f->flags & FRAME_EOF)) {
		session_fail(s, op->id, FAIL_FILE, errno, strerror(errno));
		release(op);
	}
	return true;
}

bool operations_data(struct operations *ops, struct session *s, const struct frame *f)
{
	struct operation *op = find(ops, stream_id(f->stream));

	if (!stream_id(f->stream) || stream_part(f->stream) != PART_STDIN ||
		(f->flags & ~FRAME_EOF))
		return false;
	if (!op)
		return true;
	if (op->kind == OPERATION_PUT)
		return put_took(ops, op, s, f);
	return input_take(&op->command.in, f->body, f->flags & FRAME_EOF);
}

bool operations_credit(struct operations *ops, const struct frame *f)
{
	enum stream_part part = stream_part(f->stream);
	struct operation *op = find(ops, stream_id(f->stream));
	struct msg_credit m;

	if (!stream_id(f->stream) || (part != PART_STDOUT && part != PART_STDERR) || f->flags ||
		!get_credit(f->body, &m))
		return false;
	if (!op)
		return true;
	return op->kind == OPERATION_COMMAND &&
	       credit_grant(&op->command.out[part - PART_STDOUT].credit, m.bytes);
}

bool operations_cancel(struct operations *ops, struct session *s, const struct frame *f)
{
	struct operation *op = find(ops, stream_id(f->stream));

	if (!names_operation(f) || f->body.len)
		return false;
	if (op && op->kind == OPERATION_COMMAND) {
		command_stop(&op->command, EXIT_CANCELLED);
	} else if (op && op->put.fd >= 0) {
		session_fail(s, op->id, FAIL_FILE, ECANCELED, strerror(ECANCELED));
		release(op);
	}
	return true;
}

bool operations_ack(struct operations *ops, const struct frame *f)
{
	struct operation *op = find(ops, stream_id(f->stream));
	bool over;

	if (!names_operation(f) || f->body.len)
		return false;
	if (!op)
		return true;
	over = op->kind == OPERATION_PUT ? op->put.fd < 0 : op->command.ended;
	if (over)
		release(op);
	return over;
}

bool operations_reaped(struct operations *ops, pid_t pid, int status)
{
	for (size_t i = 0; i < OPERATIONS_MAX; i++) {
		struct operation *op = &ops->all[i];

		if (op->kind == OPERATION_COMMAND && op->command.pid == pid &&
			!op->command.reaped) {
			command_reaped(&op->command, status);
			return true;
		}
	}
	return false;
}

void operations_wants(struct operations *ops, const struct session *s, struct loop *loop)
{
	for (size_t i = 0; i < OPERATIONS_MAX; i++)
		if (ops->all[i].kind == OPERATION_COMMAND)
			command_wants(&ops->all[i].command, s, loop);
}

/* One chunk of each output that has one. False: none had, or the port takes no more. */
static bool pump_all(struct operations *ops, struct session *s, struct port *port)
{
	bool any = false;

	for (size_t i = 0; i < OUTPUTS; i++) {
		size_t n = (ops->turn + i) % OUTPUTS;
		struct operation *op = &ops->all[n / 2];
		enum stream_part part = n % 2 ? PART_STDERR : PART_STDOUT;

		if (op->kind != OPERATION_COMMAND || op->command.report >= 0 ||
			op->command.started_due || op->command.failed)
			continue;
		if (!output_pump(&op->command.out[n % 2], s, stream_of(op->id, part)))
			continue;
		session_flush(s, port);
		any = true;
		if (!session_quiet(s)) {
			ops->turn = n + 1;
			return false;
		}
	}
	return any;
}

void operations_turn(struct operations *ops, struct session *s, struct port *port)
{
	for (size_t i = 0; i < OPERATIONS_MAX; i++) {
		struct operation *op = &ops->all[i];

		if (op->kind == OPERATION_COMMAND && !command_turn(&op->command, s, op->id))
			release(op);
		else if (op->kind == OPERATION_PUT)
			put_turn(&op->put, s, op->id);
	}
	for (int i = 0; i < PASSES && s->phase == OPEN; i++)
		if (!pump_all(ops, s, port))
			break;
}

void operations_clear(struct operations *ops)
{
	for (size_t i = 0; i < OPERATIONS_MAX; i++)
		release(&ops->all[i]);
}
