/* SPDX-License-Identifier: Apache-2.0 */
/* Tree streams on their way through the session. */
#include "tree.h"

#include <stdlib.h>

#include "internal.h"
#include "tree_receive.h"
#include "tree_send.h"

#include "base/xalloc.h"

/* One transfer. `failed` is our side's end of it. */
struct trip {
	struct command *command;
	bool failed;
	struct err err;

	struct tree_source *source; /* of a put */
	struct bytes left;	    /* of the record that is being sent */

	struct tree_sink *sink; /* of a get */

	struct tree_reader *reader; /* of a walk */
	uint64_t faults;	    /* in it; each costs its reader as much as an entry */
	bool (*item)(void *self, const struct tree_item *untrusted);
	void *self;
};

static bool trip_over(const void *self)
{
	const struct trip *t = self;

	return t->failed || operation_ended(t->command);
}

/* Waits for its end. False when either side failed. */
static bool trip_wait(struct trip *t, struct session *s, int64_t deadline, struct err *err)
{
	if (!loop_until(s->loop, trip_over, t, deadline, err))
		return false;
	if (t->failed) {
		*err = t->err;
		return false;
	}
	return transfer_succeeded(t->command, err);
}

static void give(void *self)
{
	struct trip *t = self;

	while (!t->failed) {
		size_t n;

		if (!t->left.len && !tree_source_next(t->source, &t->left, &t->err)) {
			t->failed = true;
			return;
		}
		if (!t->left.len) {
			command_input_end(t->command);
			return;
		}
		n = command_input(t->command, t->left.data, t->left.len);
		t->left = bytes_of(t->left.data + n, t->left.len - n);
		if (t->left.len)
			return;
	}
}

static bool put(struct session *s, struct trip *t, const char *guest_path, bool agent_root,
	int64_t deadline, struct err *err)
{
	const struct transfer_spec spec = { .type = MSG_PUT,
		.flags = agent_root ? TREE_AGENT_ROOT : 0,
		.path = guest_path,
		.input_wanted = give,
		.self = t };
	bool ok;

	t->command = transfer_start(s, &spec, err);
	if (!t->command)
		return false;
	ok = trip_wait(t, s, deadline, err);
	command_free(t->command);
	return ok;
}

bool session_put_tree(struct session *s, const char *host_path, const char *guest_path,
	bool agent_root, int64_t deadline, struct tree_report *ret_report, struct err *err)
{
	struct trip t = { .source = tree_source_new(host_path, err) };
	bool ok = t.source && put(s, &t, guest_path, agent_root, deadline, err);

	if (ok)
		*ret_report = (struct tree_report){ .entries = tree_source_entries(t.source),
			.bytes = tree_source_bytes(t.source) };
	tree_source_free(t.source);
	return ok || err_in(err, "copying %s to the guest's %s", host_path, guest_path);
}

static size_t take_tree(
	void *self, enum stream_part part, const uint8_t *untrusted_data, size_t len)
{
	struct trip *t = self;

	(void)part;
	if (!t->failed)
		t->failed = !tree_sink_take(t->sink, bytes_of(untrusted_data, len), &t->err);
	return len;
}

static bool get(struct session *s, struct trip *t, const struct transfer_spec *spec,
	int64_t deadline, uint64_t *ret_entries, struct err *err)
{
	bool ok;

	t->command = transfer_start(s, spec, err);
	if (!t->command)
		return false;
	ok = trip_wait(t, s, deadline, err);
	*ret_entries = t->command->done.entries;
	command_free(t->command);
	return ok;
}

static bool same_count(uint64_t came, uint64_t untrusted_said, struct err *err)
{
	return came == untrusted_said ||
	       err_set(err, ERR_PEER, "the guest says it sent %llu entries, but %llu came",
		       (unsigned long long)untrusted_said, (unsigned long long)came);
}

static bool get_tree(struct session *s, struct tree_sink *sink, const char *guest_path,
	bool agent_root, int64_t deadline, struct tree_report *ret_report, struct err *err)
{
	struct trip t = { .sink = sink };
	const struct transfer_spec spec = { .type = MSG_GET,
		.flags = agent_root ? TREE_AGENT_ROOT : 0,
		.path = guest_path,
		.output = take_tree,
		.self = &t };
	uint64_t said;

	return get(s, &t, &spec, deadline, &said, err) &&
	       same_count(tree_sink_entries(sink), said, err) &&
	       tree_sink_finish(sink, ret_report, err);
}

static bool get_to(struct session *s, const char *guest_path, const char *host_path, bool over,
	bool agent_root, int64_t deadline, struct tree_report *ret_report, struct err *err)
{
	struct tree_sink *sink = tree_sink_new(host_path, over, err);
	bool ok = sink && get_tree(s, sink, guest_path, agent_root, deadline, ret_report, err);

	tree_sink_free(sink);
	return ok || err_in(err, "copying the guest's %s to %s", guest_path, host_path);
}

bool session_get_tree(struct session *s, const char *guest_path, const char *host_path,
	bool agent_root, int64_t deadline, struct tree_report *ret_report, struct err *err)
{
	return get_to(s, guest_path, host_path, false, agent_root, deadline, ret_report, err);
}

bool session_get_over(struct session *s, const char *guest_path, const char *host_path,
	bool agent_root, int64_t deadline, struct tree_report *ret_report, struct err *err)
{
	return get_to(s, guest_path, host_path, true, agent_root, deadline, ret_report, err);
}

static bool fail_walk(struct trip *t, enum err_code code, const char *why)
{
	t->failed = true;
	return err_set(&t->err, code, "%s", why);
}

static size_t take_manifest(
	void *self, enum stream_part part, const uint8_t *untrusted_data, size_t len)
{
	struct trip *t = self;
	struct bytes untrusted = bytes_of(untrusted_data, len);
	struct tree_item item;

	(void)part;
	while (!t->failed && untrusted.len && tree_next(t->reader, &untrusted, &item)) {
		t->faults += item.kind == TREE_FAULT;
		if (t->reader->entries > TREE_ENTRIES_MAX || t->faults > TREE_ENTRIES_MAX)
			fail_walk(t, ERR_LIMIT, "the guest has too many files to compare");
		else if (item.kind != TREE_END && !t->item(t->self, &item))
			fail_walk(t, ERR_INTERRUPTED, "ended by its reader");
	}
	if (!t->failed && t->reader->wrong)
		fail_walk(t, ERR_PEER, t->reader->wrong);
	return len;
}

bool session_walk(struct session *s, const char *guest_path, bool agent_root,
	bool (*item)(void *self, const struct tree_item *untrusted), void *self, int64_t deadline,
	struct err *err)
{
	struct trip t = {
		.item = item, .self = self, .reader = xcalloc(1, sizeof(struct tree_reader))
	};
	const struct transfer_spec spec = { .type = MSG_GET,
		.flags = TREE_MANIFEST | (agent_root ? TREE_AGENT_ROOT : 0),
		.path = guest_path,
		.output = take_manifest,
		.self = &t };
	uint64_t said;
	bool ok;

	tree_reader_init(t.reader, true);
	ok = get(s, &t, &spec, deadline, &said, err) &&
	     (tree_complete(t.reader) ||
		     err_set(err, ERR_PEER, "the guest sends a list without an end")) &&
	     same_count(t.reader->entries, said, err);
	free(t.reader);
	return ok || err_in(err, "listing the guest's %s", guest_path);
}
