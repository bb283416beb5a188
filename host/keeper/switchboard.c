/* SPDX-License-Identifier: Apache-2.0 */
/* Many callers of one guest: who is there, and whose PING a PONG answers. */
#include "switchboard.h"

#include <stdlib.h>

#include "base/fd.h"
#include "base/xalloc.h"
#include "caller.h"

static struct caller **free_place(struct switchboard *b)
{
	for (int i = 0; i < CALLERS_MAX; i++)
		if (!b->callers[i])
			return &b->callers[i];
	return NULL;
}

static bool has_room(const void *self)
{
	return switchboard_callers(self) < CALLERS_MAX;
}

static void take(void *self, int fd)
{
	switchboard_add(self, fd);
}

struct switchboard *switchboard_new(struct loop *loop, int listener)
{
	struct switchboard *b = xcalloc(1, sizeof(*b));

	b->loop = loop;
	b->door = (struct door){ .has_room = has_room, .take = take, .self = b };
	door_open(&b->door, loop, listener);
	return b;
}

void switchboard_free(struct switchboard *b)
{
	if (!b)
		return;
	switchboard_serve(b, NULL);
	for (int i = 0; i < CALLERS_MAX; i++)
		caller_free(b->callers[i]);
	door_close(&b->door, b->loop);
	free(b);
}

void switchboard_add(struct switchboard *b, int fd)
{
	struct caller **place = free_place(b);

	if (place)
		*place = caller_new(b, fd);
	else
		fd_close(&fd);
}

static void on_pong(void *self, const struct msg_pong *m)
{
	struct switchboard *b = self;

	b->last_pong = m->token;
	for (int i = 0; i < CALLERS_MAX; i++) {
		struct caller *c = b->callers[i];

		for (unsigned p = 0; c && p < c->n_pings; p++) {
			struct ping *ping = &c->pings[p];

			if (!ping->sent || ping->answered || ping->guest_token != m->token)
				continue;
			ping->answered = true;
			ping->pong = *m;
			ping->pong.token = ping->token;
			caller_flush(c);
			return;
		}
	}
}

void switchboard_serve(struct switchboard *b, struct session *session)
{
	if (b->session)
		relay_pongs(b->session, NULL, NULL);
	b->session = session;
	b->last_pong = 0;
	for (int i = 0; i < CALLERS_MAX; i++) {
		if (!b->callers[i])
			continue;
		b->callers[i]->last_ping = 0;
		caller_start_anew(b->callers[i]);
	}
	if (session)
		relay_pongs(session, on_pong, b);
}

unsigned switchboard_callers(const struct switchboard *b)
{
	unsigned n = 0;

	for (int i = 0; i < CALLERS_MAX; i++)
		n += b->callers[i] != NULL;
	return n;
}

unsigned switchboard_operations(const struct switchboard *b)
{
	return b->session ? session_operations(b->session) : 0;
}
