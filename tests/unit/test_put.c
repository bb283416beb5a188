/* SPDX-License-Identifier: Apache-2.0 */
/* Files put into a guest by hand. */
#include "peer.h"

#include "base/buf.h"
#include "treestream.h"

static struct peer p;
static struct err err;

/* A guest that takes a file, or says at once that it can't. */
static struct tree_reader reader;
static struct tree_entry entry;
static struct buf file;
static bool refuse, short_count;
static uint64_t streamed;

static void take_stream(struct bytes data)
{
	struct tree_item item;

	while (tree_next(&reader, &data, &item)) {
		if (item.kind == TREE_ENTRY)
			entry = item.entry;
		else if (item.kind == TREE_EXTENT)
			buf_add(&file, item.extent.data.data, item.extent.data.len);
	}
	CHECK(!reader.wrong);
}

static void answer_put(struct peer *peer, const struct frame *f)
{
	const uint32_t control = stream_of(stream_id(f->stream), PART_CONTROL);
	struct msg_put m;

	if (f->type == MSG_PUT) {
		CHECK(get_put(f->body, &m));
		CHECK_INT(m.flags, TREE_AGENT_ROOT);
		CHECK_INT(m.path.len, 6);
		tree_reader_init(&reader, false);
		streamed = 0;
		SAY(peer, STARTED, started, control, .pid = 0);
		if (refuse)
			SAY(peer, FAILED, failed, control, .kind = FAIL_FILE, .error = 28);
	} else if (f->type == MSG_DATA && !refuse) {
		take_stream(f->body);
		streamed += f->body.len;
		if (f->body.len)
			SAY(peer, CREDIT, credit, f->stream, .bytes = (uint32_t)f->body.len);
		if (f->flags & FRAME_EOF)
			SAY(peer, DONE, done, control, .entries = 1,
				.bytes = streamed - short_count);
	}
}

static void check_put(const char *path, const uint8_t *data, size_t len)
{
	CHECK(session_put(p.session, path, 0750, data, len, clock_in(SOON), &err));
	CHECK(tree_complete(&reader));
	CHECK_INT(entry.type, TREE_FILE);
	CHECK_INT(entry.mode, 0750);
	CHECK_INT(entry.size, len);
	CHECK_INT(file.len, len);
	if (len)
		CHECK_MEM(file.data, data, len);
	buf_release(&file);
}

TEST(a_file_is_put)
{
	const size_t len = 3 * STREAM_WINDOW + 17;
	uint8_t *data = make_input(len);

	peer_open(&p);
	p.answer = answer_put;
	check_put("/a/b.x", data, len);
	check_put("/a/b.y", data, TREE_EXTENT_MAX);
	check_put("/empty", NULL, 0);
	refuse = true;
	CHECK(!session_put(p.session, "/a/b.x", 0750, data, len, clock_in(SOON), &err));
	CHECK_INT(err.code, ERR_INPUT);
	CHECK_STR(err.text, "putting /a/b.x: No space left on device");
	CHECK(!session_put(p.session, "a/b", 0750, data, len, clock_in(SOON), &err));
	CHECK_INT(err.code, ERR_INPUT);
	free(data);
	peer_release(&p);
}

TEST(a_file_of_another_size_breaks_the_session)
{
	short_count = true;
	peer_open(&p);
	p.answer = answer_put;
	CHECK(!session_put(p.session, "/a/b.x", 0644, "xyz", 3, clock_in(SOON), &err));
	CHECK_INT(err.code, ERR_PEER);
	CHECK(strstr(session_broken(p.session), "DONE: a size that differs"));
	buf_release(&file);
	peer_release(&p);
}
