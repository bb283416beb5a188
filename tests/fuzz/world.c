/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of guest-agent/child.c, group.c, heal.c, loop.c and port.c, and of some system calls,
 * which the Makefile renames in the agent's own files: no program is run, nobody is killed, no
 * clock is set and nothing waits.
 */
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "frame.h"
#include "group.h"
#include "heal.h"
#include "loop.h"
#include "port.h"
#include "report.h"

#define CHILDREN  48
#define FIRST_PID 1000

uint64_t world_time = 1;

static struct child {
	bool lives, ended; /* ended: waits to be reaped */
	int status;
	int stdio[3], report;
} children[CHILDREN];

static int freezer = -1; /* the child that holds the disk */
static bool no_more;	 /* there is no process to be had */
static int last_end;	 /* of a socket pair */

static void drop(int *fd)
{
	if (*fd > 2)
		close(*fd);
	*fd = -1;
}

static void end(struct child *c, int status)
{
	if (!c->lives)
		return;
	for (int i = 0; i < 3; i++)
		drop(&c->stdio[i]);
	drop(&c->report);
	c->lives = false;
	c->ended = true;
	c->status = status;
	raise(SIGCHLD);
}

/* Ours, and never in the way. */
static int keep(int fd)
{
	int mine = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	fcntl(mine, F_SETFL, O_NONBLOCK);
	return mine;
}

pid_t child_start(const struct child_spec *spec)
{
	last_end = -1;
	for (int i = 0; i < CHILDREN && !no_more; i++) {
		struct child *c = &children[i];

		if (c->lives || c->ended)
			continue;
		c->lives = true;
		for (int k = 0; k < 3; k++)
			c->stdio[k] = keep(spec->stdio[k]);
		c->report = keep(spec->report);
		spec->group->session = FIRST_PID + i;
		return FIRST_PID + i;
	}
	errno = EAGAIN;
	return -1;
}

bool child_enter_system(void)
{
	return true;
}

static void say(struct child *c, struct reader *r, int part)
{
	static uint8_t bytes[PAYLOAD_MAX];
	size_t len = get_u8(r) * 257u;

	frame_put_header(
		bytes + 100, &(struct frame){ .type = MSG_HELLO, .body = { NULL, HELLO_BODY } });
	(void)!write(c->stdio[part], bytes, len);
}

static void hear(struct child *c)
{
	static uint8_t bytes[PAYLOAD_MAX];

	(void)!read(c->stdio[0], bytes, sizeof(bytes));
}

static void report(struct child *c, struct reader *r)
{
	unsigned what = get_u8(r);
	struct report said = {
		.about = (enum report_about)(1 + what % 3),
		.kind = (enum fail_kind)(1 + what % 9),
		.error = what & 16 ? ENOENT : 0,
		.entries = what,
	};
	int ends[2] = { -1, -1 };

	if (said.about == REPORT_TERMINAL &&
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
		drop(&c->stdio[0]);
		drop(&c->stdio[1]);
		c->stdio[0] = keep(ends[1]);
		c->stdio[1] = keep(ends[1]);
		drop(&ends[1]);
		fcntl(ends[0], F_SETFL, O_NONBLOCK);
	}
	report_send(c->report, &said, ends[0]);
	drop(&ends[0]);
}

/* The disk is frozen, or thawed, or could not be. */
static void freezer_act(unsigned what)
{
	int error = what & 1 ? EIO : 0;

	if (freezer >= 0)
		(void)send(freezer, &error, sizeof(error), MSG_NOSIGNAL | MSG_DONTWAIT);
	if (what & 2)
		drop(&freezer);
}

/* What happens to a child that lives. */
static void child_act(struct child *c, unsigned what, struct reader *r)
{
	switch (what & 7) {
	case 0:
	case 1:
		drop(&c->report); /* the program runs */
		break;
	case 2:
		report(c, r);
		break;
	case 3:
	case 4:
		say(c, r, 1 + (what >> 4 & 1));
		break;
	case 5:
		hear(c);
		break;
	case 6:
		drop(&c->stdio[(what >> 4) % 3]);
		break;
	default:
		end(c, what & 16 ? SIGTERM : (int)(what >> 4) << 8);
		break;
	}
}

void world_act(struct reader *r)
{
	unsigned what = get_u8(r);
	struct child *c = &children[what & 7];

	what = get_u8(r);
	if (what < 16)
		freezer_act(what);
	else if (what < 32)
		no_more = what & 1;
	else if (c->lives)
		child_act(c, what, r);
}

void world_end(void)
{
	no_more = false;
	drop(&freezer);
	for (int i = 0; i < CHILDREN; i++)
		end(&children[i], SIGKILL);
}

/* Processes. */

int fuzz_kill(pid_t pid, int signal);
pid_t fuzz_waitpid(pid_t pid, int *ret_status, int options);
pid_t fuzz_fork(void);
int fuzz_reboot(int how);
int fuzz_socketpair(int domain, int type, int protocol, int ends[2]);

int fuzz_kill(pid_t pid, int signal)
{
	/* One in four does not mind TERM. */
	if (pid >= FIRST_PID && pid < FIRST_PID + CHILDREN && (signal == SIGKILL || pid % 4))
		end(&children[pid - FIRST_PID], signal);
	return 0;
}

pid_t fuzz_waitpid(pid_t pid, int *ret_status, int options)
{
	(void)pid;
	(void)options;
	for (int i = 0; i < CHILDREN; i++) {
		if (!children[i].ended)
			continue;
		children[i].ended = false;
		*ret_status = children[i].status;
		return FIRST_PID + i;
	}
	return 0;
}

/* A child that freezes has the end that was made just before; one that syncs has none. */
pid_t fuzz_fork(void)
{
	if (no_more) {
		errno = EAGAIN;
		return -1;
	}
	if (last_end >= 0) {
		drop(&freezer);
		freezer = keep(last_end);
	}
	return FIRST_PID + CHILDREN;
}

int fuzz_socketpair(int domain, int type, int protocol, int ends[2])
{
	int result = socketpair(domain, type, protocol, ends);

	last_end = ends[1];
	return result;
}

int fuzz_reboot(int how)
{
	(void)how;
	return 0;
}

void groups_return(void)
{
}

void groups_sweep(void)
{
}

struct group group_new(void)
{
	return (struct group){ .dir = -1 };
}

void group_signal(const struct group *group, int signal)
{
	(void)fuzz_kill(group->session, signal);
}

void group_kill(const struct group *group)
{
	(void)fuzz_kill(group->session, SIGKILL);
}

uint32_t group_count(const struct group *group)
{
	return group->session >= FIRST_PID && children[group->session - FIRST_PID].lives;
}

/* A command leaves as many behind as its number says. */
uint32_t group_list(const struct group *group, struct member *members, uint16_t *ret_listed)
{
	uint16_t n = (uint16_t)(group->session % 20);

	*ret_listed = n < LEFT_MAX ? n : LEFT_MAX;
	for (uint16_t i = 0; i < *ret_listed; i++)
		members[i] = (struct member){ .pid = i, .name = "a name of fifte" };
	return n;
}

void group_release(struct group *group)
{
	group->session = 0;
}

int heal_seed(struct bytes seed)
{
	return seed.len > 200 ? EIO : 0;
}

int heal_clock(uint64_t realtime_ns)
{
	return realtime_ns > 200 ? EPERM : 0;
}

/* The port: two pipes in memory, as large as those of a socket. */

static struct pipe {
	size_t len;
	uint8_t bytes[200000];
} to_agent, from_agent;

static bool port_lost = true;

static size_t put(struct pipe *p, const void *data, size_t len)
{
	size_t room = sizeof(p->bytes) - p->len, n = len < room ? len : room;

	if (n)
		memcpy(p->bytes + p->len, data, n);
	p->len += n;
	return n;
}

static size_t get(struct pipe *p, void *data, size_t size)
{
	size_t n = p->len < size ? p->len : size;

	memcpy(data, p->bytes, n);
	p->len -= n;
	memmove(p->bytes, p->bytes + n, p->len);
	return n;
}

size_t world_say(const void *data, size_t len)
{
	return put(&to_agent, data, len);
}

size_t world_hear(void *data, size_t size)
{
	return get(&from_agent, data, size);
}

void world_reopen(void)
{
	to_agent.len = from_agent.len = 0;
	port_lost = true;
}

void port_init(struct port *port, int fd)
{
	*port = (struct port){ .fd = fd };
}

bool port_find(struct port *port)
{
	bool found = port_lost;

	(void)port;
	port_lost = false;
	return found;
}

void port_wants(
	struct port *port, struct loop *loop, short events, void (*ready)(void *self), void *self)
{
	(void)port;
	(void)loop;
	/* There may be something. */
	if (events)
		ready(self);
}

size_t port_read(struct port *port, uint8_t *space, size_t size)
{
	(void)port;
	return get(&to_agent, space, size);
}

size_t port_write(struct port *port, struct bytes data)
{
	(void)port;
	return put(&from_agent, data.data, data.len);
}

/* The loop: nothing waits, and time passes when the script says so. */

uint64_t now_ms(void)
{
	return world_time;
}

void loop_begin(struct loop *loop)
{
	loop->n = 0;
}

void loop_want(struct loop *loop, int fd, short events, void (*ready)(void *self), void *self)
{
	if (loop->n == SOURCES)
		abort();
	loop->fds[loop->n] = (struct pollfd){ .fd = fd, .events = events };
	loop->wakes[loop->n].ready = ready;
	loop->wakes[loop->n].self = self;
	loop->n++;
}

void loop_until(struct loop *loop, uint64_t when_ms)
{
	loop->until = when_ms;
}

void loop_turn(struct loop *loop)
{
	if (poll(loop->fds, loop->n, 0) <= 0)
		return;
	for (size_t i = 0; i < loop->n; i++)
		if (loop->fds[i].revents)
			loop->wakes[i].ready(loop->wakes[i].self);
}
