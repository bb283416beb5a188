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

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crc32.h"
#include "freeze.h"
#include "kernfs.h"
#include "operation.h"

#define GREET_MS 1000  /* between greetings that nobody answers */
#define SYNC_MS	 10000 /* a disk that does not sync is not waited for longer */

static struct agent {
	const struct agent_place *place;
	struct loop loop;
	struct port port;
	struct inbox in;
	struct session session;
	struct operations ops;
	struct freeze freeze;
	int signals, ready;
	uint8_t nonce[16], epoch[16], boot_id[16];
	uint64_t greet_at;
	uint64_t off_at; /* when to switch off, 0: never */
	pid_t syncing;
} agent;

static void send_hello(void)
{
	struct msg_hello m = {
		.generation = PROTOCOL_GENERATION,
		.build = crc32_of(VERSION, sizeof(VERSION) - 1),
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
	memset(agent.nonce, 0, sizeof(agent.nonce));
	memset(agent.epoch, 0, sizeof(agent.epoch));
	send_hello();
}

static bool on_hello(const struct frame *f)
{
	static const uint8_t none[16];
	struct msg_hello m;

	/* A torn or empty greeting is nobody's. */
	if (!get_hello(f->body, &m) || !memcmp(m.nonce, none, sizeof(none)))
		return true;
	if (memcmp(m.nonce, agent.nonce, sizeof(m.nonce)) != 0) {
		end_session();
		session_clear(&agent.session);
		memcpy(agent.nonce, m.nonce, sizeof(m.nonce));
		memcpy(agent.epoch, m.epoch, sizeof(m.epoch));
		agent.session.phase = OPEN;
		agent.session.tag = session_tag(m.nonce);
	}
	send_hello();
	return true;
}

static bool on_exec(const struct frame *f)
{
	return operations_exec(&agent.ops, &agent.session, f);
}

static bool on_put(const struct frame *f)
{
	return operations_put(&agent.ops, &agent.session, f);
}

static bool on_data(const struct frame *f)
{
	return operations_data(&agent.ops, &agent.session, f);
}

static bool on_credit(const struct frame *f)
{
	return operations_credit(&agent.ops, f);
}

static bool on_cancel(const struct frame *f)
{
	return operations_cancel(&agent.ops, &agent.session, f);
}

static bool on_ack(const struct frame *f)
{
	return operations_ack(&agent.ops, f);
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
	if (f->stream || f->flags || !get_heal(f->body, &m) || agent.freeze.answer_by ||
		agent.freeze.prepared_due)
		return false;
	freeze_heal(&agent.freeze, &m);
	agent.session.phase = OPEN;
	return true;
}

static bool on_ping(const struct frame *f)
{
	struct msg_ping m;

	if (f->stream || f->flags || !get_ping(f->body, &m))
		return false;
	SEND(&agent.session, PONG, ping, 0, .token = m.token);
	return true;
}

static bool on_poweroff(const struct frame *f)
{
	if (f->stream || f->flags || f->body.len)
		return false;
	if (!agent.place->owns_machine)
		exit(0);
	agent.off_at = now_ms();
	if (agent.place->is_init || agent.syncing)
		return true;
	agent.syncing = fork();
	if (agent.syncing == 0) {
		sync();
		_exit(0);
	}
	agent.off_at += agent.syncing > 0 ? SYNC_MS : 0;
	return true;
}

static bool (*const handlers[])(const struct frame *) = {
	[MSG_HELLO] = on_hello,
	[MSG_EXEC] = on_exec,
	[MSG_DATA] = on_data,
	[MSG_CREDIT] = on_credit,
	[MSG_CANCEL] = on_cancel,
	[MSG_ACK] = on_ack,
	[MSG_PUT] = on_put,
	[MSG_PREPARE] = on_prepare,
	[MSG_HEAL] = on_heal,
	[MSG_PING] = on_ping,
	[MSG_POWEROFF] = on_poweroff,
};

static void dispatch(const struct frame *f)
{
	struct session *s = &agent.session;

	if (f->type != MSG_HELLO && (s->phase == GREETING || f->tag != s->tag))
		return; /* of another session */
	if (!message_known(f->type))
		return;
	if (!message_legal(f->type, FROM_HOST, s->phase) || !handlers[f->type](f))
		end_session();
}

static void receive(void)
{
	struct frame f;
	size_t size;
	uint8_t *space;

	while (session_room(&agent.session) && inbox_next(&agent.in, &f))
		dispatch(&f);
	if (agent.ops.received) {
		inbox_wipe(&agent.in);
		agent.ops.received = false;
	}
	if (!session_room(&agent.session))
		return;
	space = inbox_space(&agent.in, &size);
	size = port_read(&agent.port, space, size);
	inbox_filled(&agent.in, size);
	/* What came is looked at in this turn, what is behind it in the next. */
	while (size && session_room(&agent.session) && inbox_next(&agent.in, &f))
		dispatch(&f);
}

static void on_port(void *self)
{
	(void)self; /* every turn reads and writes */
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
		if (pid == agent.syncing)
			agent.off_at = now_ms();
		else if (!operations_reaped(&agent.ops, pid, status))
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

/* Random, and of this boot: the kernel writes it in hexadecimal, with dashes. */
static void read_boot_id(void)
{
	char text[64] = "";
	size_t n = 0;

	(void)kernfs_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", text, sizeof(text));
	for (const char *p = text; *p && n < 32; p++) {
		int digit = *p >= 'a' ? *p - 'a' + 10 : *p - '0';

		if (*p == '-')
			continue;
		agent.boot_id[n / 2] = (uint8_t)(agent.boot_id[n / 2] << 4 | (digit & 15));
		n++;
	}
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
	if (agent.off_at)
		loop_until(loop, agent.off_at);
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

_Noreturn void agent_run(const struct agent_place *place)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	agent.place = place;
	agent.ready = place->ready;
	agent.signals = open_signals();
	read_boot_id();
	operations_init(&agent.ops, place->enter_system, place->ready < 0, null);
	freeze_init(&agent.freeze);
	session_clear(&agent.session);
	port_init(&agent.port, place->channel);
	for (;;) {
		if (port_find(&agent.port))
			end_session();
		/* A greeting may get lost while no host is there. */
		if (agent.session.phase == GREETING && now_ms() >= agent.greet_at) {
			if (!outbox_peek(&agent.session.out).len)
				send_hello();
			agent.greet_at = now_ms() + GREET_MS;
		}
		receive();
		operations_turn(&agent.ops, &agent.session, &agent.port);
		freeze_turn(&agent.freeze, &agent.session);
		session_flush(&agent.session, &agent.port);
		if (agent.off_at && now_ms() >= agent.off_at)
			reboot(RB_POWER_OFF);
		wait_turn();
	}
}
