/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions and dispatch.
 *
 * How it works. Each turn: wait, read frames, let every module do what is due, write what the port
 * takes. When something was written the next turn does not wait, since room has appeared for
 * others. Frames are read only while there is room for their answers. A session begins with a
 * HELLO that has a nonce; a message that breaks the rules ends it, and the agent greets again.
 */
#include "agent.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crc32.h"
#include "ending.h"
#include "freeze.h"
#include "operations.h"
#include "vitals.h"

#define PORT_BUFFER 4096 /* the port's driver hands out so much at a time */
#define GREET_MS    1000 /* between greetings that nobody answers */

static struct agent {
	const struct agent_place *place;
	struct loop loop;
	struct port port;
	struct inbox in;
	struct session session;
	struct operations ops;
	struct freeze freeze;
	struct ending ending;
	int signals, ready;
	bool heard;    /* the port may have something */
	bool attached; /* there is a session: nonce and epoch are of the host */
	bool known;    /* the host knows from us what we know of this epoch */
	uint8_t nonce[16], epoch[16], boot_id[16];
	uint16_t flags; /* enum hello_flag, of the answer to the last HELLO */
	uint64_t greet_at;
} agent;

static void send_hello(void)
{
	struct msg_hello m = {
		.generation = PROTOCOL_GENERATION,
		.build = crc32_of(VERSION, sizeof(VERSION) - 1),
		.flags = agent.flags,
	};
	uint8_t body[HELLO_BODY];
	struct writer w = writer_of(body, sizeof(body));

	memcpy(m.nonce, agent.nonce, sizeof(m.nonce));
	memcpy(m.epoch, agent.epoch, sizeof(m.epoch));
	memcpy(m.boot_id, agent.boot_id, sizeof(m.boot_id));
	put_hello(&w, &m);
	session_send(&agent.session, MSG_HELLO, 0, bytes_of(body, sizeof(body)));
	agent.greet_at = now_ms() + GREET_MS;
}

/* Nothing of the session remains; the agent greets. */
static void end_session(void)
{
	operations_clear(&agent.ops);
	freeze_clear(&agent.freeze);
	session_clear(&agent.session);
	agent.attached = false;
	agent.flags = 0;
	memset(agent.nonce, 0, sizeof(agent.nonce));
	memset(agent.epoch, 0, sizeof(agent.epoch));
	send_hello();
}

/* A new session, of the same epoch or another. A freeze outlives either. */
static void begin_session(const struct msg_hello *m)
{
	const bool held =
		agent.attached && agent.known && !memcmp(m->epoch, agent.epoch, sizeof(m->epoch));
	const bool frozen = freeze_inherit(&agent.freeze);

	if (held)
		operations_hold(&agent.ops);
	else
		operations_clear(&agent.ops);
	session_clear(&agent.session);
	agent.attached = true;
	agent.known = held || !(m->flags & HELLO_HELD);
	agent.flags = (held ? HELLO_HELD : 0) | (frozen ? HELLO_FROZEN : 0);
	memcpy(agent.nonce, m->nonce, sizeof(m->nonce));
	memcpy(agent.epoch, m->epoch, sizeof(m->epoch));
	agent.session.phase = frozen ? FROZEN : OPEN;
	agent.session.tag = session_tag(m->nonce);
}

static bool on_hello(const struct frame *f)
{
	static const uint8_t none[16];
	struct msg_hello m;

	/* A torn or empty greeting is nobody's. */
	if (!get_hello(f->body, &m) || !memcmp(m.nonce, none, sizeof(none)))
		return true;
	if (!agent.attached || memcmp(m.nonce, agent.nonce, sizeof(m.nonce)) != 0)
		begin_session(&m);
	send_hello();
	return true;
}

static bool on_prepare(const struct frame *f)
{
	struct msg_prepare m;

	if (f->stream || f->flags || !get_prepare(f->body, &m))
		return false;
	agent.session.phase = FROZEN;
	freeze_prepare(&agent.freeze, &m, agent.place->enter_system && agent.ops.ready);
	return true;
}

static bool on_heal(const struct frame *f)
{
	struct msg_heal m;

	/* Healing before PREPARED was said would leave its asker without an answer. */
	if (f->stream || f->flags || !get_heal(f->body, &m) || !freeze_can_heal(&agent.freeze))
		return false;
	freeze_heal(&agent.freeze, &m);
	agent.session.phase = OPEN;
	return true;
}

static bool on_ping(const struct frame *f)
{
	struct msg_pong pong = { 0 };
	uint8_t body[64];
	struct writer w = writer_of(body, sizeof(body));
	struct msg_ping m;

	if (f->stream || f->flags || !get_ping(f->body, &m))
		return false;
	vitals_read(&pong);
	pong.token = m.token;
	pong.operations = (uint16_t)operations_running(&agent.ops);
	put_pong(&w, &pong);
	session_send(&agent.session, MSG_PONG, 0, bytes_of(body, (size_t)(w.at - body)));
	return true;
}

static bool on_ending(const struct frame *f)
{
	if (f->stream || f->flags || f->body.len)
		return false;
	if (!agent.place->owns_machine)
		exit(0);
	ending_begin(&agent.ending, f->type == MSG_REBOOT ? RB_AUTOBOOT : RB_POWER_OFF,
		!agent.place->is_init);
	return true;
}

/* Messages of the session, and those about operations. False: the session is over. */
static bool (*const handlers[])(const struct frame *) = {
	[MSG_HELLO] = on_hello,
	[MSG_PREPARE] = on_prepare,
	[MSG_HEAL] = on_heal,
	[MSG_PING] = on_ping,
	[MSG_POWEROFF] = on_ending,
	[MSG_REBOOT] = on_ending,
};

static bool (*const operation_handlers[])(
	struct operations *, struct session *, const struct frame *) = {
	[MSG_EXEC] = operations_begin,
	[MSG_PUT] = operations_begin,
	[MSG_GET] = operations_begin,
	[MSG_DATA] = operations_data,
	[MSG_CREDIT] = operations_credit,
	[MSG_CANCEL] = operations_cancel,
	[MSG_SIGNAL] = operations_signal,
	[MSG_RESIZE] = operations_resize,
	[MSG_QUERY] = operations_query,
	[MSG_ACK] = operations_ack,
};

static bool handle(const struct frame *f)
{
	if (f->type < sizeof(handlers) / sizeof(*handlers) && handlers[f->type])
		return handlers[f->type](f);
	assert(operation_handlers[f->type]); /* all other messages are the guest's */
	return operation_handlers[f->type](&agent.ops, &agent.session, f);
}

static void dispatch(const struct frame *f)
{
	struct session *s = &agent.session;

	if (f->type != MSG_HELLO && (s->phase == GREETING || f->tag != s->tag))
		return; /* of another session */
	agent.known |= f->type != MSG_HELLO;
	if (!message_known(f->type))
		return;
	if (!message_legal(f->type, FROM_HOST, s->phase) || !handle(f))
		end_session();
}

static void receive(void)
{
	struct frame f;
	size_t size, n;
	uint8_t *space;

	while (session_room(&agent.session) && inbox_next(&agent.in, &f))
		dispatch(&f);
	if (agent.ops.received) {
		inbox_wipe(&agent.in);
		agent.ops.received = false;
	}
	/* While no host is there the port is not polled. */
	if (!session_room(&agent.session) || !(agent.heard || agent.port.hung))
		return;
	agent.heard = false;
	do {
		space = inbox_space(&agent.in, &size);
		n = port_read(&agent.port, space, size);
		inbox_filled(&agent.in, n);
	} while (n >= PORT_BUFFER && n < size);
	/* What came is looked at in this turn, what is behind it in the next. */
	while (session_room(&agent.session) && inbox_next(&agent.in, &f))
		dispatch(&f);
}

static void on_port(void *self)
{
	(void)self;
	agent.heard = true; /* every turn writes */
}

static void on_ready(void *self)
{
	(void)self;
	if (agent.ready < 0)
		return;
	close(agent.ready);
	agent.ready = -1;
	agent.ops.ready = true;
}

static void on_signal(void *self)
{
	struct signalfd_siginfo info[8];
	bool sweep = false;
	int status;
	pid_t pid;

	(void)self;
	while (read(agent.signals, info, sizeof(info)) > 0)
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (!ending_reaped(&agent.ending, pid) &&
			!operations_reaped(&agent.ops, pid, status))
			sweep = true;
	}
	if (sweep)
		groups_sweep();
}

static int open_signals(void)
{
	sigset_t set;

	(void)signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGIO);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void wait_turn(void)
{
	struct loop *loop = &agent.loop;
	short events = 0;

	if (session_room(&agent.session))
		events |= POLLIN;
	if (outbox_peek(&agent.session.out).len)
		events |= POLLOUT;
	loop_begin(loop);
	if (agent.session.moved)
		loop_until(loop, now_ms());
	agent.session.moved = false;
	ending_wants(&agent.ending, loop);
	if (agent.session.phase == GREETING)
		loop_until(loop, agent.greet_at);
	loop_want(loop, agent.signals, POLLIN, on_signal, NULL);
	operations_wants(&agent.ops, &agent.session, loop);
	freeze_wants(&agent.freeze, loop);
	if (agent.ready >= 0)
		loop_want(loop, agent.ready, POLLIN, on_ready, NULL);
	port_wants(&agent.port, loop, events, on_port, NULL);
	loop_turn(loop);
}

void agent_begin(const struct agent_place *place)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	agent.place = place;
	agent.ready = place->ready;
	agent.signals = open_signals();
	vitals_boot_id(agent.boot_id);
	operations_init(&agent.ops, place->enter_system, place->ready < 0, null);
	freeze_init(&agent.freeze);
	session_clear(&agent.session);
	port_init(&agent.port, place->channel);
}

void agent_turn(void)
{
	if (port_find(&agent.port))
		end_session();
	if (agent.port.taken && agent.place->steps_aside)
		exit(0);
	/* A greeting may get lost while no host is there. */
	if (agent.session.phase == GREETING && now_ms() >= agent.greet_at) {
		if (!outbox_peek(&agent.session.out).len)
			send_hello();
		agent.greet_at = now_ms() + GREET_MS;
	}
	receive();
	session_flush(&agent.session, &agent.port); /* answers do not wait for output to be read */
	operations_turn(&agent.ops, &agent.session, &agent.port);
	freeze_turn(&agent.freeze, &agent.session, operations_running(&agent.ops));
	session_flush(&agent.session, &agent.port);
	ending_turn(&agent.ending);
	wait_turn();
}

_Noreturn void agent_run(const struct agent_place *place)
{
	agent_begin(place);
	for (;;)
		agent_turn();
}
