/* SPDX-License-Identifier: Apache-2.0 */
/* Files put into a guest by hand. */
#include "peer.h"

#include "base/buf.h"

static struct peer p;
static struct err err;

/* A guest that takes a file, or says at once that it can't. */
static struct buf file;
static uint64_t file_size;
static bool refuse;

static void answer_put(struct peer *peer, const struct frame *f)
{
	const uint32_t control = stream_of(stream_id(f->stream), PART_CONTROL);
	struct msg_put m;

	if (f->type == MSG_PUT) {
		CHECK(get_put(f->body, &m));
		CHECK_INT(m.mode, 0750);
		CHECK_INT(m.path.len, 6);
		file_size = m.size;
		SAY(peer, STARTED, started, control, .pid = 0);
		if (refuse)
			SAY(peer, FAILED, failed, control, .kind = FAIL_FILE, .error = 28);
	} else if (f->type == MSG_DATA && !refuse) {
		buf_add(&file, f->body.data, f->body.len);
		if (f->body.len)
			SAY(peer, CREDIT, credit, f->stream, .bytes = (uint32_t)f->body.len);
		if (f->flags & FRAME_EOF)
			SAY(peer, PUT_DONE, put_done, control, .size = file.len);
	}
}

TEST(a_file_is_put)
{
	const size_t len = 3 * STREAM_WINDOW + 17;
	uint8_t *data = make_input(len);

	peer_open(&p);
	p.answer = answer_put;
	CHECK(session_put(p.session, "/a/b.x", 0750, data, len, clock_in(SOON), &err));
	CHECK_INT(file_size, len);
	CHECK_INT(file.len, len);
	CHECK_MEM(file.data, data, len);
	buf_release(&file);
	CHECK(session_put(p.session, "/empty", 0750, NULL, 0, clock_in(SOON), &err));
	refuse = true;
	CHECK(!session_put(p.session, "/a/b.x", 0750, data, len, clock_in(SOON), &err));
	CHECK_INT(err.code, ERR_PEER);
	CHECK_STR(err.text, "putting /a/b.x: No space left on device");
	CHECK(!session_put(p.session, "a/b", 0750, data, len, clock_in(SOON), &err));
	CHECK_INT(err.code, ERR_INPUT);
	free(data);
	buf_release(&file);
	peer_release(&p);
}

static void answer_put_short(struct peer *peer, const struct frame *f)
{
	const uint32_t control = stream_of(stream_id(f->stream), PART_CONTROL);

	if (f->type == MSG_PUT)
		SAY(peer, STARTED, started, control, .pid = 0);
	if (f->type == MSG_DATA)
		SAY(peer, PUT_DONE, put_done, control, .size = 1);
}

TEST(a_file_of_another_size_breaks_the_session)
{
	peer_open(&p);
	p.answer = answer_put_short;
	CHECK(!session_put(p.session, "/a", 0644, "xyz", 3, clock_in(SOON), &err));
	CHECK_INT(err.code, ERR_PEER);
	CHECK(strstr(session_broken(p.session), "PUT_DONE: a size that differs"));
	peer_release(&p);
}
