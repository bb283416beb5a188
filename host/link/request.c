/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about the guest as a whole: one message, one answer. */
#include <string.h>
#include <time.h>

#include "internal.h"

#define SEED_BYTES 64

/* What a caller waits with. */
struct wait {
	const struct session *s;
	enum request request;
	unsigned attempt;
};

/* The guest that was asked is gone or knows nothing of it. */
static bool lost(const struct wait *w)
{
	return w->s->broken[0] || w->s->attempt != w->attempt;
}

/* PREPARE comes after all bulk, for the guest takes none when it is frozen; and what freezes or
 * heals comes after the answer to an older PREPARE, lest the two overtake each other. */
static bool can_send(const void *arg)
{
	const struct wait *w = arg;
	const struct session *s = w->s;

	if (lost(w))
		return true;
	if (w->request != REQUEST_PING && s->requests[REQUEST_PREPARE].owed)
		return false;
	if (w->request == REQUEST_PREPARE && s->out.bulk_len)
		return false;
	return outbox_control_room(&s->out, 1);
}

static bool has_answer(const void *arg)
{
	const struct wait *w = arg;

	return lost(w) || !w->s->requests[w->request].owed;
}

static bool check_lost(const struct wait *w, struct err *err)
{
	if (!lost(w))
		return true;
	return err_set(err, ERR_PEER, "%s",
		w->s->broken[0]	    ? w->s->broken
		: w->s->detached[0] ? w->s->detached
				    : "the guest started anew before it answered");
}

/* The body of a PING is made here: its token is taken as it is sent, for others send some too while
 * it waits. */
static bool send_and_wait(struct session *s, struct wait *w, uint16_t type, struct bytes body,
	int64_t deadline, struct err *err)
{
	uint8_t ping[sizeof(struct msg_ping)];
	struct writer writer = writer_of(ping, sizeof(ping));

	if (!loop_until(s->loop, can_send, w, deadline, err) || !check_lost(w, err))
		return false;
	if (w->request == REQUEST_PING) {
		put_ping(&writer, &(struct msg_ping){ ++s->ping_token });
		body = bytes_of(ping, sizeof(ping));
	}
	(void)outbox_control(&s->out, &(struct frame){ .type = type, .tag = s->tag, .body = body });
	s->requests[w->request].owed++;
	/* The guest goes on with its streams as soon as it reads this, before it answers. */
	if (w->request == REQUEST_HEAL)
		s->phase = OPEN;
	session_flush(s);
	return loop_until(s->loop, has_answer, w, deadline, err) && check_lost(w, err);
}

/* One request, and the error number in its answer. */
static bool ask(struct session *s, enum request request, uint16_t type, struct bytes body,
	int64_t deadline, struct err *err)
{
	struct wait w = { s, request, s->attempt };

	if (!session_usable(s, err))
		return false;
	if (send_and_wait(s, &w, type, body, deadline, err))
		return true;
	return err_in(err, "asking the guest to %s", message_name(type));
}

bool session_prepare(struct session *s, uint32_t freeze_ms, int64_t deadline, struct err *err)
{
	struct msg_prepare m = { freeze_ms };
	uint8_t body[sizeof(m)];
	struct writer w = writer_of(body, sizeof(body));
	uint32_t error;
	bool ok;

	if (s->phase == FROZEN)
		return err_set(err, ERR_PEER, "the guest is frozen already: heal it first");
	put_prepare(&w, &m);
	s->stopping = true;
	ok = ask(s, REQUEST_PREPARE, MSG_PREPARE, bytes_of(body, sizeof(body)), deadline, err);
	s->stopping = s->requests[REQUEST_PREPARE].owed > 0;
	session_pump(s);
	if (!ok)
		return false;
	error = s->requests[REQUEST_PREPARE].error;
	if (error)
		return err_set(
			err, ERR_PEER, "the guest can't freeze its disk: %s", strerror((int)error));
	return true;
}

bool session_heal(struct session *s, int64_t deadline, struct err *err)
{
	uint8_t body[8 + 4 + SEED_BYTES], seed[SEED_BYTES];
	struct writer w = writer_of(body, sizeof(body));
	struct timespec now;
	struct msg_heal m = { .seed = bytes_of(seed, sizeof(seed)) };
	uint32_t error;

	random_fill(seed, sizeof(seed));
	clock_gettime(CLOCK_REALTIME, &now);
	m.realtime_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	put_heal(&w, &m);
	if (!ask(s, REQUEST_HEAL, MSG_HEAL, bytes_of(body, sizeof(body)), deadline, err))
		return false;
	session_pump(s);
	error = s->requests[REQUEST_HEAL].error;
	if (error)
		return err_set(
			err, ERR_PEER, "the guest can't heal itself: %s", strerror((int)error));
	return true;
}

bool session_ping(
	struct session *s, int64_t deadline, struct guest_health *ret_health, struct err *err)
{
	if (!ask(s, REQUEST_PING, MSG_PING, bytes_of(NULL, 0), deadline, err))
		return false;
	if (ret_health)
		*ret_health = s->health;
	return true;
}

/* One message without an answer. */
static bool tell(struct session *s, uint16_t type, struct err *err)
{
	const struct frame f = { .type = type, .tag = s->tag };

	if (!session_usable(s, err))
		return false;
	if (!outbox_control(&s->out, &f))
		return err_set(err, ERR_PEER,
			"the guest takes no messages: end its machine without asking it");
	session_flush(s);
	return true;
}

bool session_poweroff(struct session *s, struct err *err)
{
	return tell(s, MSG_POWEROFF, err);
}

bool session_reboot(struct session *s, struct err *err)
{
	return tell(s, MSG_REBOOT, err);
}
