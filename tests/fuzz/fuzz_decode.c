/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as frames and as bodies: whatever decodes encodes to the very same bytes. */
#include <assert.h>
#include <string.h>

#include "frame.h"
#include "messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ORACLE(name)                                                                               \
	static void check_##name(struct bytes body)                                                \
	{                                                                                          \
		static uint8_t again[PAYLOAD_MAX];                                                 \
		static struct msg_##name m;                                                        \
		struct writer w = writer_of(again, sizeof(again));                                 \
                                                                                                   \
		if (!get_##name(body, &m))                                                         \
			return;                                                                    \
		put_##name(&w, &m);                                                                \
		assert(!w.bad && (size_t)(w.at - again) == body.len);                              \
		assert(!memcmp(again, body.data, body.len));                                       \
	}

ORACLE(hello)
ORACLE(exec)
ORACLE(failed)
ORACLE(started)
ORACLE(credit)
ORACLE(exit)
ORACLE(put)
ORACLE(get)
ORACLE(done)
ORACLE(signal)
ORACLE(resize)
ORACLE(query)
ORACLE(status)
ORACLE(prepare)
ORACLE(prepared)
ORACLE(heal)
ORACLE(healed)
ORACLE(ping)
ORACLE(pong)

static void (*const checks[])(struct bytes body) = {
	[MSG_HELLO] = check_hello,
	[MSG_EXEC] = check_exec,
	[MSG_STARTED] = check_started,
	[MSG_FAILED] = check_failed,
	[MSG_CREDIT] = check_credit,
	[MSG_EXIT] = check_exit,
	[MSG_PUT] = check_put,
	[MSG_DONE] = check_done,
	[MSG_SIGNAL] = check_signal,
	[MSG_RESIZE] = check_resize,
	[MSG_QUERY] = check_query,
	[MSG_STATUS] = check_status,
	[MSG_GET] = check_get,
	[MSG_PREPARE] = check_prepare,
	[MSG_PREPARED] = check_prepared,
	[MSG_HEAL] = check_heal,
	[MSG_HEALED] = check_healed,
	[MSG_PING] = check_ping,
	[MSG_PONG] = check_pong,
};

static void check_body(unsigned type, struct bytes body)
{
	if (type < sizeof(checks) / sizeof(*checks) && checks[type] && body.len <= PAYLOAD_MAX)
		checks[type](body);
}

static size_t take_frames(struct inbox *in)
{
	static uint8_t again[FRAME_MAX];
	size_t taken = 0;
	struct frame f;

	while (inbox_next(in, &f)) {
		size_t size = frame_put(again, &f);

		assert(!memcmp(again, f.body.data - FRAME_HEADER, size));
		check_body(f.type, f.body);
		taken += size;
	}
	return taken;
}

/* In pieces of `step` bytes, and no byte gets lost. */
static void check_inbox(const uint8_t *data, size_t size, size_t step)
{
	static struct inbox in;
	size_t taken = 0, fed = 0;

	inbox_clear(&in);
	in.skipped = 0;
	while (fed < size) {
		size_t room, n = size - fed < step ? size - fed : step;
		uint8_t *space = inbox_space(&in, &room);

		n = n < room ? n : room;
		assert(n);
		memcpy(space, data + fed, n);
		inbox_filled(&in, n);
		fed += n;
		taken += take_frames(&in);
	}
	assert(taken + in.skipped + (in.len - in.at) == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	check_body(data[0], bytes_of(data + 1, size - 1));
	check_inbox(data + 1, size - 1, (size_t)data[0] * 17 + 1);
	return 0;
}
