/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's end of a command's input: what may come, and when. */
#include "pump.h"

#include "terminal.h"
#include "test.h"

static uint8_t bytes[STREAM_WINDOW + 1], ring[STREAM_WINDOW];

/* Nothing here types or sends. */
int terminal_end(int fd)
{
	return fd;
}

uint8_t *session_bulk_space(struct session *s)
{
	(void)s;
	return NULL;
}

void session_bulk(struct session *s, uint32_t stream, size_t len, bool eof)
{
	(void)s;
	(void)stream;
	(void)len;
	(void)eof;
}

/* Else the next CREDIT would be for more than a window, which nobody may say. */
TEST(what_was_not_announced_is_not_granted)
{
	struct input in = { .fd = -1, .credit = credit_new(), .ring = ring };

	CHECK(input_take(&in, bytes_of(bytes, STREAM_WINDOW), false));
	CHECK_INT(in.grant, STREAM_WINDOW); /* nobody reads: all was consumed */
	CHECK(!input_take(&in, bytes_of(bytes, 1), false));
	in.grant = 0; /* announced */
	CHECK(input_take(&in, bytes_of(bytes, STREAM_WINDOW), false));
	CHECK(!input_take(&in, bytes_of(bytes, 1), false));
}

TEST(an_end_may_be_said_again_but_no_byte_behind_it)
{
	struct input in = { .fd = -1, .credit = credit_new(), .ring = ring };

	CHECK(input_take(&in, bytes_of(bytes, 1), true));
	CHECK(input_take(&in, bytes_of(bytes, 0), true));
	CHECK(!input_take(&in, bytes_of(bytes, 1), true));
}
