/* SPDX-License-Identifier: Apache-2.0 */
/* One file from memory into the agent's own root: a tree stream of one entry. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

#include "base/xalloc.h"
#include "sha256.h"
#include "treestream.h"

#define ENTRY_MAX 128 /* bytes of an entry without names */

/* Returns the stream, owned. */
static uint8_t *make_stream(unsigned mode, const uint8_t *data, size_t len, size_t *ret_len)
{
	const struct tree_entry entry = {
		.type = TREE_FILE, .mode = mode, .mtime_s = time(NULL), .size = len
	};
	size_t extents = len / TREE_EXTENT_MAX + 1,
	       size = ENTRY_MAX + len + extents * (TREE_HEADER + 8) + (size_t)2 * TREE_HEADER +
		      SHA256_SIZE + 8;
	uint8_t *stream = xcalloc(1, size), hash[SHA256_SIZE];
	struct writer w = writer_of(stream, size);
	struct sha256 sum;

	put_tree_entry(&w, &entry);
	for (size_t at = 0, n; at < len; at += n) {
		n = len - at < TREE_EXTENT_MAX ? len - at : TREE_EXTENT_MAX;
		put_tree_extent(&w, &(struct tree_extent){ at, bytes_of(data + at, n) });
	}
	sha256_init(&sum);
	sha256_add(&sum, data, len);
	sha256_end(&sum, hash);
	put_tree_file_end(&w, hash);
	put_tree_end(&w, 1);
	assert(!w.bad);
	*ret_len = (size_t)(w.at - stream);
	return stream;
}

static bool put(struct session *s, const char *guest_path, struct bytes stream, int64_t deadline,
	struct err *err)
{
	const struct transfer_spec spec = { .type = MSG_PUT,
		.flags = TREE_AGENT_ROOT,
		.path = guest_path,
		.input = stream.data,
		.input_len = stream.len };
	struct command *c = transfer_start(s, &spec, err);
	bool ok;

	if (!c)
		return false;
	ok = loop_until(s->loop, operation_ended, c, deadline, err) && transfer_succeeded(c, err);
	command_free(c);
	return ok;
}

bool session_put(struct session *s, const char *guest_path, unsigned mode, const void *data,
	size_t len, int64_t deadline, struct err *err)
{
	uint8_t *stream;
	size_t size;
	bool ok;

	if (mode > 07777)
		return err_set(err, ERR_INPUT, "putting %s: a mode is up to 07777", guest_path);
	stream = make_stream(mode, data, len, &size);
	ok = put(s, guest_path, bytes_of(stream, size), deadline, err) ||
	     err_in(err, "putting %s", guest_path);
	free(stream);
	return ok;
}
