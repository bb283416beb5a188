/* SPDX-License-Identifier: Apache-2.0 */
/* How much each side of one stream may still send. Pure numbers; the caller sends CREDIT. */
#ifndef CREDIT_H
#define CREDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limits.h"

/* The receiving side of one stream. */
struct credit {
	uint32_t granted; /* bytes the peer may still send */
	uint32_t owed;	  /* bytes consumed here and not yet granted again */
};

static inline struct credit credit_new(void)
{
	return (struct credit){ .granted = STREAM_WINDOW };
}

/* Bytes arrived. False: more than granted, so the session is over. */
static inline bool credit_spend(struct credit *c, size_t n)
{
	if (n > c->granted)
		return false;
	c->granted -= (uint32_t)n;
	return true;
}

/*
 * Bytes left our hands: written onward or thrown away, it makes no difference. A stream whose
 * reader has died must go on paying back, or its sender hangs. Returns the grant to announce, 0
 * while it is not worth a message.
 */
static inline uint32_t credit_consumed(struct credit *c, size_t n)
{
	uint32_t grant;

	c->owed += (uint32_t)n;
	if (c->owed < STREAM_WINDOW / 4)
		return 0;
	grant = c->owed;
	c->granted += grant;
	c->owed = 0;
	return grant;
}

/* The sending side gets a grant. False: more than a window, a fault of the peer. */
static inline bool credit_grant(uint32_t *to_send, uint32_t bytes)
{
	if (bytes > STREAM_WINDOW - *to_send)
		return false;
	*to_send += bytes;
	return true;
}

#endif
