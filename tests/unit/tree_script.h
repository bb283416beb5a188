/* SPDX-License-Identifier: Apache-2.0 */
/* Tree streams written down record by record, also those that nobody should send. */
#ifndef TREE_SCRIPT_H
#define TREE_SCRIPT_H

#include "treestream.h"

struct script {
	struct writer w;
	uint64_t entries;
	struct tree_hash hash;
	uint8_t buf[1 << 19];
};

void script_init(struct script *s);
struct bytes script_bytes(const struct script *s);

/* Of a type, with mode 0644 and no size. */
struct tree_entry script_entry(enum tree_type type, const char *path);
void script_add(struct script *s, const struct tree_entry *m);
void script_folder(struct script *s, const char *path);
/* A link. */
void script_link(struct script *s, const char *path, const char *target);
/* Only the entry of a file. */
void script_file(struct script *s, const char *path, uint64_t size);
void script_extent(struct script *s, uint64_t offset, const void *data, size_t len);
/* Its end, with the right hash of its extents so far. */
void script_file_end(struct script *s, uint64_t size);
/* A whole file that holds a text. */
void script_text(struct script *s, const char *path, const char *text);
void script_fault(struct script *s, int error, const char *path);
void script_end(struct script *s);

#endif
