/* SPDX-License-Identifier: Apache-2.0 */
/* Files into the agent's own root. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#include "base/xalloc.h"

static struct command *put_start(struct session *s, const struct msg_put *m, struct err *err)
{
	size_t size = 4 + 8 + 4 + m->path.len;
	uint8_t *body = xcalloc(1, size);
	struct writer w = writer_of(body, size);

	put_put(&w, m);
	if (hello_split(body, size) != size) {
		free(body);
		err_set(err, ERR_INPUT, "the path holds the bytes of a greeting of the channel");
		return NULL;
	}
	return operation_new(s, MSG_PUT, body, size, err);
}

static bool put_succeeded(const struct command_result *result, struct err *err)
{
	if (result->end == COMMAND_EXITED)
		return true;
	return err_set(err, ERR_PEER, "%s", result->text);
}

bool session_put(struct session *s, const char *guest_path, unsigned mode, const void *data,
	size_t len, int64_t deadline, struct err *err)
{
	struct msg_put m = { mode, len, bytes_str(guest_path) };
	struct command *c;
	bool ok;

	if (m.path.len < 2 || m.path.len >= PATH_LENGTH || guest_path[0] != '/' || mode > 07777)
		return err_set(err, ERR_INPUT,
			"a file is put at an absolute path of less than %d bytes, with a mode of "
			"up to 07777",
			PATH_LENGTH);
	c = put_start(s, &m, err);
	if (!c)
		return err_in(err, "putting %s", guest_path);
	c->has_stdin = true;
	c->input = data;
	c->input_len = len;
	c->put_size = len;
	session_pump(s);
	ok = loop_until(s->loop, operation_ended, c, deadline, err) &&
	     put_succeeded(&c->result, err);
	command_free(c);
	return ok || err_in(err, "putting %s", guest_path);
}
