/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file or folder of the host as a tree stream, record by record.
 *
 * Follows no link below its path, enters no mount, opens nothing but regular files and folders.
 * What can't be read ends it: half a tree is no use in a guest. What belongs to the caller, who is
 * not root, is sent as root's: his number means nothing in there.
 */
#ifndef TREE_SEND_H
#define TREE_SEND_H

#include "err.h"
#include "treestream.h"

struct tree_source;

/* Borrows nothing. NULL: there is no such file. */
struct tree_source *tree_source_new(const char *host_path, struct err *err);
void tree_source_free(struct tree_source *s);
/* The next bytes of the stream, borrowed until the next call; empty after its end. */
bool tree_source_next(struct tree_source *s, struct bytes *ret_record, struct err *err);
uint64_t tree_source_entries(const struct tree_source *s);
uint64_t tree_source_bytes(const struct tree_source *s);

#endif
