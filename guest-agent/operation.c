/* SPDX-License-Identifier: Apache-2.0 */
/* The life of one operation. */
#include "operation.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "terminal.h"

#define GONE_MS 1000 /* a killed group is waited for no longer */
#define TIDY_MS 5000 /* a transfer that was cancelled removes what it began */

static bool is_command(const struct operation *o)
{
	return o->kind == MSG_EXEC;
}

/* Our end of a pipe never blocks, the child's does. */
static bool make_pipe(int *ret_ours, int *ret_theirs, bool we_write)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	*ret_ours = ends[we_write];
	*ret_theirs = ends[!we_write];
	fcntl(*ret_ours, F_SETFL, O_NONBLOCK);
	/* Each turn that the writer and we take costs more than to copy some pages. */
	if (!we_write)
		fcntl(*ret_ours, F_SETPIPE_SZ, STREAM_WINDOW);
	return true;
}

/* The pipes that the request needs; the null device for the rest. */
static bool make_pipes(struct operation *o, const struct request *r, int stdio[3])
{
	const unsigned flags = r->exec ? r->exec->flags : 0;
	const bool terminal = flags & EXEC_PTY;
	const bool in = r->kind == MSG_PUT || ((flags & EXEC_STDIN) && !terminal);
	const bool out = r->kind == MSG_GET || (r->exec && !terminal);

	for (int i = 0; i < 3; i++)
		stdio[i] = r->null;
	o->in.awaited = terminal;
	return (!in || make_pipe(&o->in.fd, &stdio[0], true)) &&
	       (!out || make_pipe(&o->out[0].fd, &stdio[1], false)) &&
	       (!out || !r->exec || make_pipe(&o->out[1].fd, &stdio[2], false));
}

bool operation_start(struct operation *o, uint32_t id, const struct request *r, uint8_t *ring)
{
	struct child_spec spec = {
		.kind = r->kind,
		.exec = r->exec,
		.path = r->path,
		.manifest = r->manifest,
		.report = -1,
		.enter_system = r->enter_system,
		.group = &o->group,
	};
	int why;

	*o = (struct operation){
		.kind = r->kind,
		.id = id,
		.pid = -1,
		.report = -1,
		.in = { .fd = -1, .credit = credit_new(), .ring = ring },
		.out = { { .fd = -1, .credit = STREAM_WINDOW },
			{ .fd = -1, .credit = STREAM_WINDOW } },
		.group = { .dir = -1 },
	};
	o->in.secret = r->kind == MSG_PUT;
	o->started = o->started_due = r->kind != MSG_EXEC;
	if (r->exec) {
		o->deadline = r->exec->deadline_ms ? now_ms() + r->exec->deadline_ms : 0;
		o->grace_ms = r->exec->grace_ms;
		o->out[0].max = o->out[1].max = r->exec->output_max;
	}
	if (report_pair(&o->report, &spec.report) && make_pipes(o, r, spec.stdio)) {
		groups_return();
		if (r->exec)
			o->group = group_new();
		o->pid = child_start(&spec);
	}
	why = errno;
	for (int i = 0; i < 3; i++)
		if (spec.report >= 0 && spec.stdio[i] != r->null)
			close(spec.stdio[i]);
	close(spec.report);
	if (o->pid < 0)
		operation_release(o);
	errno = why;
	return o->pid > 0;
}

/* A child that has not come far enough to be in its session is told directly. */
static void tell(struct operation *o, int signal)
{
	if (group_count(&o->group))
		group_signal(&o->group, signal);
	else if (!o->reaped)
		kill(o->pid, signal);
}

static void close_streams(struct operation *o)
{
	input_close(&o->in);
	output_close(&o->out[0]);
	output_close(&o->out[1]);
}

void operation_stop(struct operation *o, enum exit_flag why)
{
	/* Who cancels wants to be told. */
	if (why == EXIT_CANCELLED)
		o->held = false;
	if (o->ended || (o->flags & why))
		return;
	o->flags |= (uint16_t)why;
	o->deadline = 0;
	if (!is_command(o)) {
		/* A PUT notices, and leaves nothing half done; a GET has nothing to tidy up. */
		close_streams(o);
		o->kill_at = now_ms() + (o->kind == MSG_PUT ? TIDY_MS : 0);
	} else if (!o->kill_at && !o->gone_by) {
		tell(o, SIGTERM);
		o->kill_at = now_ms() + o->grace_ms;
	}
}

void operation_signal(struct operation *o, int signal)
{
	if (is_command(o) && !o->ended)
		tell(o, signal);
}

void operation_resize(struct operation *o, const struct msg_resize *m)
{
	if (o->out[0].fd >= 0 && o->out[0].terminal) {
		terminal_resize(o->out[0].fd, m->rows, m->columns);
	} else if (o->in.awaited) {
		o->resized = true;
		o->rows = m->rows;
		o->columns = m->columns;
	}
}

void operation_repeat(struct operation *o)
{
	o->held = false;
	if (o->ended)
		o->end_due = true;
	else if (o->started)
		o->started_due = true;
}

static void adopt_terminal(struct operation *o, int fd)
{
	if (!o->in.awaited || fd < 0) {
		close(fd);
		return;
	}
	o->out[0].fd = fd;
	o->out[0].terminal = o->in.terminal = true;
	o->in.awaited = false;
	o->in.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (o->resized)
		terminal_resize(fd, o->rows, o->columns);
	input_pump(&o->in);
}

/* The report ended: a program has begun, a transfer is over. */
static void report_over(struct operation *o)
{
	close(o->report);
	o->report = -1;
	if (o->failed || o->done)
		return;
	if (is_command(o)) {
		o->started = o->started_due = true;
		return;
	}
	o->failed = true;
	o->said = (struct report){
		.kind = FAIL_FILE, .error = EIO, .text = "the transfer was ended by something else"
	};
}

static void hear_report(void *self)
{
	struct operation *o = self;
	enum report_state state = REPORT_READ;
	struct report report;
	int fd;

	while (o->report >= 0 && state == REPORT_READ) {
		state = report_receive(o->report, &report, &fd);
		if (state == REPORT_END)
			report_over(o);
		if (state != REPORT_READ)
			break;
		if (report.about == REPORT_TERMINAL) {
			adopt_terminal(o, fd);
			continue;
		}
		o->said = report;
		o->failed = report.about == REPORT_FAILED;
		o->done = report.about == REPORT_DONE && !is_command(o);
		if (fd >= 0)
			close(fd);
	}
}

void operation_reaped(struct operation *o, int status)
{
	hear_report(o);
	o->reaped = true;
	o->status = status;
	o->deadline = 0;
	for (int i = 0; i < 2 && is_command(o); i++)
		output_bound(&o->out[i]);
}

void operation_hold(struct operation *o)
{
	o->held = true;
	o->out[0].credit = o->out[1].credit = 0;
}

void operation_resume(struct operation *o, const struct msg_query *m, struct session *s)
{
	const bool over = o->ended || (o->reaped && !o->failed);

	o->held = false;
	o->end_due = o->ended;
	o->out[0].credit = m->stdout_credit;
	o->out[1].credit = m->stderr_credit;
	SEND(s, STATUS, status, stream_of(o->id, PART_CONTROL),
		.state = over ? STATUS_ENDED : STATUS_RUNS, .stdin_bytes = o->in.came,
		.stdin_credit = input_credit(&o->in), .stdout_bytes = o->out[0].sent,
		.stderr_bytes = o->out[1].sent);
}

static void on_input(void *self)
{
	input_pump(self);
}

static void on_output(void *self)
{
	struct output *out = self;

	out->readable = true;
}

void operation_wants(struct operation *o, const struct session *s, struct loop *loop)
{
	if (o->deadline)
		loop_until(loop, o->deadline);
	if (o->kill_at)
		loop_until(loop, o->kill_at);
	if (o->gone_by > now_ms())
		loop_until(loop, o->gone_by);
	if (o->report >= 0)
		loop_want(loop, o->report, POLLIN, hear_report, o);
	if (s->phase != OPEN)
		return;
	if (input_waits(&o->in))
		loop_want(loop, o->in.fd, POLLOUT, on_input, &o->in);
	for (int i = 0; i < 2; i++)
		if (o->started && output_waits(&o->out[i]))
			loop_want(loop, o->out[i].fd, POLLIN, on_output, &o->out[i]);
}

static void watch_time(struct operation *o)
{
	uint64_t now = now_ms();

	if (o->deadline && now >= o->deadline)
		operation_stop(o, EXIT_TIMED_OUT);
	if (o->kill_at && now >= o->kill_at) {
		if (is_command(o))
			group_kill(&o->group);
		if (!o->reaped)
			kill(o->pid, SIGKILL);
		o->kill_at = 0;
		o->gone_by = now + GONE_MS;
	}
}

/* Whether the result is final: the child is reaped, its output sent, its stopped group gone. */
static bool settled(struct operation *o)
{
	if (!o->reaped || o->failed || o->report >= 0)
		return false;
	if (o->kind == MSG_PUT)
		return o->in.eof || o->flags;
	if (o->kind == MSG_GET)
		return o->out[0].fd < 0 && !o->flags;
	for (int i = 0; i < 2; i++) {
		/* Who cancels without granting credit does not want the rest. */
		if (!output_drained(&o->out[i]) &&
			!((o->flags & EXIT_CANCELLED) && !o->out[i].credit))
			return false;
	}
	if (o->kill_at || (o->gone_by && now_ms() < o->gone_by))
		return group_count(&o->group) == 0;
	return true;
}

static void end(struct operation *o)
{
	bool signalled = WIFSIGNALED(o->status);
	struct msg_exit *result = &o->result;

	*result = (struct msg_exit){
		.flags = (uint16_t)(o->flags | (signalled ? EXIT_SIGNALLED : 0)),
		.value = (uint16_t)(signalled ? WTERMSIG(o->status) : WEXITSTATUS(o->status)),
		.stdout_bytes = o->out[0].sent,
		.stderr_bytes = o->out[1].sent,
		.stdout_cut = o->out[0].cut,
		.stderr_cut = o->out[1].cut,
	};
	if (is_command(o))
		result->left_behind = group_list(&o->group, o->left, &result->listed);
	for (uint16_t i = 0; i < result->listed; i++)
		result->left[i] = (struct left_process){ .pid = (uint32_t)o->left[i].pid,
			.name = bytes_str(o->left[i].name) };
	o->kill_at = o->gone_by = 0;
	o->ended = o->end_due = true;
	close_streams(o);
	group_release(&o->group);
}

static void say_result(struct operation *o, struct session *s)
{
	const uint32_t stream = stream_of(o->id, PART_CONTROL);
	uint8_t body[512];
	struct writer w = writer_of(body, sizeof(body));

	o->end_due = false;
	if (is_command(o))
		put_exit(&w, &o->result);
	else
		put_done(&w, &(struct msg_done){ o->said.entries,
				     o->kind == MSG_GET ? o->out[0].sent : o->in.came });
	session_send(s, is_command(o) ? MSG_EXIT : MSG_DONE, stream,
		bytes_of(body, (size_t)(w.at - body)));
}

/* A transfer that was cancelled. */
static bool gave_up(const struct operation *o)
{
	return !is_command(o) && o->flags;
}

static void say_failure(struct operation *o, struct session *s)
{
	const struct report *why = &o->said;

	if (gave_up(o))
		session_fail(s, o->id, FAIL_FILE, ECANCELED, "cancelled");
	else
		session_fail(s, o->id, why->kind, why->error,
			why->text[0] ? why->text : strerror(why->error));
}

bool operation_turn(struct operation *o, struct session *s)
{
	watch_time(o);
	if (!o->ended && settled(o))
		end(o);
	if (s->phase != OPEN || o->held || !session_room(s))
		return true;
	if (!o->ended && o->reaped && (o->failed || gave_up(o)) && !session_carries(s, o->id)) {
		say_failure(o, s);
		return false;
	}
	if (o->started_due) {
		SEND(s, STARTED, started, stream_of(o->id, PART_CONTROL), .pid = (uint32_t)o->pid);
		o->started_due = false;
	}
	if (o->in.grant) {
		SEND(s, CREDIT, credit, stream_of(o->id, PART_STDIN), .bytes = o->in.grant);
		o->in.grant = 0;
	}
	if (o->end_due && !session_carries(s, o->id))
		say_result(o, s);
	return true;
}

void operation_release(struct operation *o)
{
	if (is_command(o) && o->pid > 0 && !o->ended)
		group_kill(&o->group);
	/* A GET may be silent for long, and would not meet the end of its pipe. */
	if (o->kind != MSG_PUT && o->pid > 0 && !o->reaped)
		kill(o->pid, SIGKILL);
	if (o->report >= 0)
		close(o->report);
	o->report = -1;
	close_streams(o);
	group_release(&o->group);
	o->kind = 0;
}
