/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files and folders between host and guest, and manifests of the guest's.
 *
 * How it works. All three are one operation of the session with a tree stream in it. What comes
 * from the guest is checked record by record; a tree is made strictly below its target folder,
 * with each part of a path opened without following links. The parts: tree_send.h walks the host's
 * files, tree_receive.h makes a guest's, treestream.h has the form of both.
 */
#ifndef TREE_H
#define TREE_H

#include "session.h"
#include "treestream.h"

/* More of it does not come from a guest into the host. */
#define TREE_BYTES_MAX	 (64ULL << 30) /* of contents; holes count nothing */
#define TREE_ENTRIES_MAX (4ULL << 20)

struct tree_report {
	uint64_t entries, bytes;
	/* Entries that this host makes in part or not at all: devices, sockets, set-user-ID and
	 * set-group-ID bits, and owners when it is not root. */
	uint64_t skipped;
	char first_skipped[256]; /* one of them, printable; empty: none, or the top itself */
};

/* Copies a file or folder of the host to guest_path (an absolute path of the system's root, or of
 * the agent's own). Links are copied as links. What belongs to the caller becomes root's. */
bool session_put_tree(struct session *s, const char *host_path, const char *guest_path,
	bool agent_root, int64_t deadline, struct tree_report *ret_report, struct err *err);

/* Copies a file or folder of the guest to host_path, which must not be there yet: it is made beside
 * its place and renamed, so that it is there whole or not at all. A fault in the stream fails it.
 */
bool session_get_tree(struct session *s, const char *guest_path, const char *host_path,
	bool agent_root, int64_t deadline, struct tree_report *ret_report, struct err *err);

/* The same where a regular file may be: a file takes its place when all of it is there. */
bool session_get_over(struct session *s, const char *guest_path, const char *host_path,
	bool agent_root, int64_t deadline, struct tree_report *ret_report, struct err *err);

/* Calls item for each entry, file end and fault below guest_path, in the order of the stream. What
 * it gets is untrusted, checked for form alone, and borrowed until it returns. Where it returns
 * false the walk ends, with ERR_INTERRUPTED. ERR_INPUT when guest_path can't be read. */
bool session_walk(struct session *s, const char *guest_path, bool agent_root,
	bool (*item)(void *self, const struct tree_item *untrusted), void *self, int64_t deadline,
	struct err *err);

#endif
