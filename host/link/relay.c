/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of others, passed on through a session. */
#include "relay.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#include "base/xalloc.h"

#define GRACE_MAX_MS 10000

/* What the opener says that the session must know. */
struct traits {
	bool input, pty;
	uint64_t output_max;
};

static bool read_opener(uint16_t type, struct bytes untrusted, struct traits *ret)
{
	struct msg_exec exec;
	struct msg_put put;
	struct msg_get get;

	*ret = (struct traits){ .input = type == MSG_PUT };
	if (type == MSG_PUT)
		return get_put(untrusted, &put);
	if (type == MSG_GET)
		return get_get(untrusted, &get);
	if (!get_exec(untrusted, &exec))
		return false;
	*ret = (struct traits){ .input = exec.flags & EXEC_STDIN,
		.pty = exec.flags & EXEC_PTY,
		.output_max = exec.output_max };
	return true;
}

/* Nothing is used up here. */
static size_t keep(void *self, enum stream_part part, const uint8_t *untrusted_data, size_t len)
{
	(void)self;
	(void)part;
	(void)untrusted_data;
	(void)len;
	return 0;
}

/* One who is gone would keep a place in the guest for as long as he likes. */
static void cap_grace(struct bytes untrusted_body, uint8_t *opener)
{
	struct writer w = writer_of(opener, untrusted_body.len);
	struct msg_exec exec;

	if (!get_exec(untrusted_body, &exec) || exec.grace_ms <= GRACE_MAX_MS)
		return;
	exec.grace_ms = GRACE_MAX_MS;
	put_exec(&w, &exec);
}

struct command *relay_start(struct session *s, uint16_t type, struct bytes untrusted_body,
	relay_told *told, void *self, struct err *err)
{
	struct traits traits;
	struct command *c;
	uint8_t *opener;
	bool ok = read_opener(type, untrusted_body, &traits) && untrusted_body.len <= OPENER_MAX;

	opener = xcalloc(1, untrusted_body.len + 1);
	if (ok) {
		memcpy(opener, untrusted_body.data, untrusted_body.len);
		if (type == MSG_EXEC)
			cap_grace(untrusted_body, opener);
		ok = hello_split(opener, untrusted_body.len) == untrusted_body.len;
	}
	if (!ok) {
		free(opener);
		err_set(err, ERR_INPUT, "a request that is not well-formed");
		return NULL;
	}
	c = operation_new(s, type, opener, untrusted_body.len, true, err);
	if (!c)
		return NULL;
	if (traits.input) {
		input_stream(&c->input, NULL);
		c->input.room = STREAM_WINDOW;
	}
	c->pty = traits.pty;
	c->output_max = traits.output_max;
	c->take = keep;
	c->told = told;
	c->self = self;
	session_flush(s);
	return c;
}

bool relay_has_input(const struct command *c)
{
	return c->input.open;
}

void relay_pongs(struct session *s, void (*pong)(void *self, const struct msg_pong *m), void *self)
{
	s->pong = pong;
	s->pong_self = self;
}

bool relay_can_ping(const struct session *s)
{
	return session_is_open(s) && outbox_control_room(&s->out, 1);
}

uint64_t relay_ping(struct session *s)
{
	struct msg_ping m = { s->ping_token + 1 };
	uint8_t body[sizeof(m)];
	struct writer w = writer_of(body, sizeof(body));

	assert(relay_can_ping(s));
	put_ping(&w, &m);
	(void)outbox_control(&s->out,
		&(struct frame){
			.type = MSG_PING, .tag = s->tag, .body = bytes_of(body, sizeof(body)) });
	s->requests[REQUEST_PING].owed++;
	s->ping_token++;
	session_flush(s);
	return m.token;
}
