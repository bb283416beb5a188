/* SPDX-License-Identifier: Apache-2.0 */
/* How a session begins: our HELLO, the guest's, and what its answer means for what ran before. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "internal.h"

#include "base/clock.h"
#include "crc32.h"

#define GREET_AGAIN_MS 500
#define GREET_LATER_MS 1000

void random_fill(void *out, size_t len)
{
	if (getrandom(out, len, 0) == (ssize_t)len)
		return;
	perror("postern: the kernel gives no random numbers");
	exit(125);
}

/* Nothing that was under way will arrive, and no answer will come. */
void session_hush(struct session *s)
{
	memset(s->requests, 0, sizeof(s->requests));
	s->phase = GREETING;
	s->stopping = false;
	s->attempt++;
	outbox_clear(&s->out);
}

/* Whatever stands in the outbox is torn off: the guest finds a HELLO at any position. */
void session_greet(struct session *s)
{
	struct msg_hello hello = {
		.generation = PROTOCOL_GENERATION,
		.build = crc32_of(VERSION, strlen(VERSION)),
		.flags = s->opened ? HELLO_HELD : 0,
	};
	uint8_t body[HELLO_BODY];
	struct writer w = writer_of(body, sizeof(body));

	random_fill(s->nonce, sizeof(s->nonce));
	s->nonce[0] |= 1; /* never the zero nonce */
	s->tag = session_tag(s->nonce);
	s->attempt++;
	s->greet_at = clock_in(GREET_AGAIN_MS);
	memcpy(hello.nonce, s->nonce, sizeof(hello.nonce));
	memcpy(hello.epoch, s->epoch, sizeof(hello.epoch));
	put_hello(&w, &hello);
	outbox_clear(&s->out);
	(void)outbox_control(&s->out,
		&(struct frame){ .type = MSG_HELLO, .body = bytes_of(body, sizeof(body)) });
}

/* A guest that starts anew knows nothing of what ran; one that gave the session up may, and a new
 * epoch ends that. */
static void start_anew(struct session *s)
{
	operations_lose(s, "the guest started anew while it ran: its outcome is unknown");
	session_hush(s);
	random_fill(s->epoch, sizeof(s->epoch));
	s->opened = false;
}

/* Whether the guest that answers is the one that ran our operations. */
static bool is_held(const struct session *s, const struct msg_hello *hello)
{
	return (hello->flags & HELLO_HELD) &&
	       !memcmp(hello->boot_id, s->boot_id, sizeof(s->boot_id));
}

static void open_session(struct session *s, const struct msg_hello *hello)
{
	bool held = is_held(s, hello);

	if (hello->generation != PROTOCOL_GENERATION) {
		session_break(s,
			"the image's agent speaks protocol generation %d, this postern %d: rebuild "
			"the image",
			hello->generation, PROTOCOL_GENERATION);
		return;
	}
	memcpy(s->boot_id, hello->boot_id, sizeof(s->boot_id));
	s->greetings++;
	s->phase = hello->flags & HELLO_FROZEN ? FROZEN : OPEN;
	s->opened = true;
	resume_operations(s, held);
}

/* A HELLO that can't be read is a torn one, which is no fault at all. */
void greeting_take(struct session *s, struct bytes untrusted_body)
{
	static const uint8_t unasked[16];
	struct msg_hello hello;

	if (!get_hello(untrusted_body, &hello))
		return;
	if (!memcmp(hello.nonce, unasked, sizeof(unasked))) {
		if (s->phase != GREETING)
			start_anew(s);
		session_greet(s);
	} else if (s->phase != GREETING) {
		return;
	} else if (!memcmp(hello.nonce, s->nonce, sizeof(s->nonce)) &&
		   !memcmp(hello.epoch, s->epoch, sizeof(s->epoch))) {
		open_session(s, &hello);
	} else {
		/* It works through our older greetings: a new one now would never be the last. */
		s->greet_at = clock_in(GREET_LATER_MS);
	}
}
