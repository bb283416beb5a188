/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree stream of a guest made into a file or folder of the host.
 *
 * How it works. Everything comes into being in a folder of its own (mode 0700) beside the target,
 * and only a whole tree is moved to its place. Each name is made anew in the descriptor of its
 * folder, which was made here too: there is no link that could be followed and nothing that could
 * be overwritten. What a hostile guest could harm the host with is not made at all, but counted:
 * devices, sockets, set-user-ID and set-group-ID bits. Without root, owners are left out too.
 */
#ifndef TREE_RECEIVE_H
#define TREE_RECEIVE_H

#include "tree.h"

struct tree_sink;

/* over: a regular file at host_path is to be replaced by a file. NULL: something (else) is there
 * already, or its folder is not, or can't be written to. */
struct tree_sink *tree_sink_new(const char *host_path, bool over, struct err *err);
/* Takes the next bytes. False: it is of no more use, and everything that was made is to go. */
bool tree_sink_take(struct tree_sink *s, struct bytes untrusted, struct err *err);
/* That came. */
uint64_t tree_sink_entries(const struct tree_sink *s);
/* The stream is over: moves the tree to its place. */
bool tree_sink_finish(struct tree_sink *s, struct tree_report *ret_report, struct err *err);
/* Removes what was not finished. */
void tree_sink_free(struct tree_sink *s);

#endif
