/* SPDX-License-Identifier: Apache-2.0 */
/* The life of one command. */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GONE_MS 1000 /* a killed group is waited for no longer */

void command_init(struct command *c, uint8_t *ring)
{
	*c = (struct command){
		.report = -1,
		.in = { .fd = -1, .credit = credit_new(), .ring = ring },
		.out = { { .fd = -1, .credit = STREAM_WINDOW },
			{ .fd = -1, .credit = STREAM_WINDOW } },
		.group = { .dir = -1 },
	};
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
	return true;
}

bool command_start(struct command *c, const struct msg_exec *m, bool enter_system, int null)
{
	struct child_spec spec = {
		.exec = m,
		.stdio = { -1, -1, -1 },
		.report = -1,
		.enter_system = enter_system,
		.group = &c->group,
	};
	int why;

	if (m->deadline_ms)
		c->deadline = now_ms() + m->deadline_ms;
	c->grace_ms = m->grace_ms;
	c->pid = -1;
	if (make_pipe(&c->report, &spec.report, false) &&
		make_pipe(&c->out[0].fd, &spec.stdio[1], false) &&
		make_pipe(&c->out[1].fd, &spec.stdio[2], false) &&
		(!(m->flags & EXEC_STDIN) || make_pipe(&c->in.fd, &spec.stdio[0], true))) {
		if (!(m->flags & EXEC_STDIN))
			spec.stdio[0] = null;
		groups_return();
		c->group = group_new();
		c->pid = child_start(&spec);
	}
	why = errno;
	if (spec.stdio[0] != null)
		close(spec.stdio[0]);
	close(spec.stdio[1]);
	close(spec.stdio[2]);
	close(spec.report);
	if (c->pid < 0)
		command_release(c);
	errno = why;
	return c->pid > 0;
}

void command_stop(struct command *c, enum exit_flag why)
{
	if (c->ended || (c->flags & why))
		return;
	c->flags |= (uint16_t)why;
	c->deadline = 0;
	if (c->kill_at || c->gone_by)
		return;
	/* A child that has not come far enough to be in its session is told directly. */
	if (group_count(&c->group))
		group_signal(&c->group, SIGTERM);
	else if (!c->reaped)
		kill(c->pid, SIGTERM);
	c->kill_at = now_ms() + c->grace_ms;
}

void command_repeat(struct command *c)
{
	if (c->ended)
		c->exit_due = true;
	else if (c->report < 0)
		c->started_due = true;
}

/* The report pipe: a report, or its end when the program has replaced our child. */
static void hear_report(void *self)
{
	struct command *c = self;
	ssize_t n;

	if (c->report < 0)
		return;
	n = read(c->report, &c->failure, sizeof(c->failure));
	if (n < 0)
		return;
	close(c->report);
	c->report = -1;
	c->failed = n > 0;
	c->started_due = n == 0;
}

void command_reaped(struct command *c, int status)
{
	hear_report(c);
	c->reaped = true;
	c->status = status;
	c->deadline = 0;
	for (int i = 0; i < 2; i++)
		output_bound(&c->out[i]);
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

void command_wants(struct command *c, const struct session *s, struct loop *loop)
{
	if (c->deadline)
		loop_until(loop, c->deadline);
	if (c->kill_at)
		loop_until(loop, c->kill_at);
	if (c->gone_by > now_ms())
		loop_until(loop, c->gone_by);
	if (c->report >= 0)
		loop_want(loop, c->report, POLLIN, hear_report, c);
	if (s->phase != OPEN)
		return;
	if (c->in.fd >= 0 && c->in.len)
		loop_want(loop, c->in.fd, POLLOUT, on_input, &c->in);
	for (int i = 0; i < 2; i++) {
		struct output *out = &c->out[i];

		if (out->fd >= 0 && out->credit && !out->readable && c->report < 0)
			loop_want(loop, out->fd, POLLIN, on_output, out);
	}
}

static void watch_time(struct command *c)
{
	uint64_t now = now_ms();

	if (c->deadline && now >= c->deadline)
		command_stop(c, EXIT_TIMED_OUT);
	if (c->kill_at && now >= c->kill_at) {
		group_kill(&c->group);
		c->kill_at = 0;
		c->gone_by = now + GONE_MS;
	}
}

/* Whether EXIT can be said: the child is reaped, its output sent, its stopped group gone. */
static bool settled(struct command *c)
{
	if (!c->reaped)
		return false;
	for (int i = 0; i < 2; i++) {
		/* Who cancels without granting credit does not want the rest. */
		if (!output_drained(&c->out[i]) &&
			!((c->flags & EXIT_CANCELLED) && !c->out[i].credit))
			return false;
	}
	if (c->kill_at || (c->gone_by && now_ms() < c->gone_by))
		return group_count(&c->group) == 0;
	return true;
}

static void end(struct command *c)
{
	bool signalled = WIFSIGNALED(c->status);

	c->result = (struct msg_exit){
		.flags = (uint16_t)(c->flags | (signalled ? EXIT_SIGNALLED : 0)),
		.value = (uint16_t)(signalled ? WTERMSIG(c->status) : WEXITSTATUS(c->status)),
		.stdout_bytes = c->out[0].sent,
		.stderr_bytes = c->out[1].sent,
		.left_behind = group_count(&c->group),
	};
	c->kill_at = c->gone_by = 0;
	c->ended = c->exit_due = true;
	input_close(&c->in);
	output_close(&c->out[0]);
	output_close(&c->out[1]);
	group_release(&c->group);
}

bool command_turn(struct command *c, struct session *s, uint32_t id)
{
	const uint32_t stream = stream_of(id, PART_CONTROL);

	watch_time(c);
	if (s->phase != OPEN || !session_room(s))
		return true;
	if (c->failed && c->reaped) {
		session_fail(s, id, c->failure.kind, c->failure.error, strerror(c->failure.error));
		return false;
	}
	if (c->started_due) {
		SEND(s, STARTED, started, stream, .pid = (uint32_t)c->pid);
		c->started_due = false;
	}
	if (c->in.grant) {
		SEND(s, CREDIT, credit, stream_of(id, PART_STDIN), .bytes = c->in.grant);
		c->in.grant = 0;
	}
	if (!c->ended && c->report < 0 && settled(c))
		end(c);
	if (c->exit_due && !session_carries(s, id)) {
		uint8_t body[64];
		struct writer w = writer_of(body, sizeof(body));

		put_exit(&w, &c->result);
		session_send(s, MSG_EXIT, stream, bytes_of(body, (size_t)(w.at - body)));
		c->exit_due = false;
	}
	return true;
}

void command_release(struct command *c)
{
	if (c->pid > 0 && !c->ended)
		group_kill(&c->group);
	if (c->pid > 0 && !c->reaped)
		kill(c->pid, SIGKILL);
	if (c->report >= 0)
		close(c->report);
	c->report = -1;
	input_close(&c->in);
	output_close(&c->out[0]);
	output_close(&c->out[1]);
	group_release(&c->group);
}
