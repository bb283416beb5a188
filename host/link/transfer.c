/* SPDX-License-Identifier: Apache-2.0 */
/* GET and PUT as operations: a path, and a tree stream that others write and read. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#include "base/xalloc.h"

/* Returns the body of a GET or PUT, owned, or NULL. */
static uint8_t *encode(const struct transfer_spec *spec, size_t *ret_len, struct err *err)
{
	struct bytes path = bytes_str(spec->path);
	size_t size = 2 + 4 + path.len;
	struct writer w;
	uint8_t *body;

	if (path.len < 1 || path.len >= PATH_LENGTH || path.data[0] != '/') {
		err_set(err, ERR_INPUT,
			"a path in the guest begins with / and has less than %d bytes",
			PATH_LENGTH);
		return NULL;
	}
	body = xcalloc(1, size);
	w = writer_of(body, size);
	if (spec->type == MSG_PUT)
		put_put(&w, &(struct msg_put){ spec->flags, path });
	else
		put_get(&w, &(struct msg_get){ spec->flags, path });
	assert(!w.bad && w.at == w.end);
	if (hello_split(body, size) != size) {
		free(body);
		err_set(err, ERR_INPUT, "the path holds the bytes of a greeting of the channel");
		return NULL;
	}
	*ret_len = size;
	return body;
}

struct command *transfer_start(struct session *s, const struct transfer_spec *spec, struct err *err)
{
	size_t len = 0;
	uint8_t *opener = encode(spec, &len, err);
	struct command *c = opener ? operation_new(s, spec->type, opener, len, false, err) : NULL;

	if (!c)
		return NULL;
	c->take = spec->output;
	c->self = spec->self;
	if (spec->type == MSG_PUT && spec->input)
		input_borrow(&c->input, spec->input, spec->input_len);
	else if (spec->type == MSG_PUT)
		input_stream(&c->input, spec->input_wanted);
	session_pump(s);
	return c;
}

bool transfer_succeeded(const struct command *c, struct err *err)
{
	const struct command_result *r = &c->result;
	bool by_file = r->end == COMMAND_FAILED && r->kind == FAIL_FILE;

	return r->end == COMMAND_EXITED ||
	       err_set(err, by_file ? ERR_INPUT : ERR_PEER, "%s", r->text);
}
