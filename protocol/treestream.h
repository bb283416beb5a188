/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree stream: a file or a folder with all below it, as GET sends it and PUT takes it.
 *
 * How it works. The stream is a row of records, each a kind, a length and a body:
 *
 *	kind(1) length(4) body(length)
 *
 * all big-endian, a body at most TREE_BODY_MAX bytes. Entries come depth first: the first has the
 * empty path, and what is inside a folder follows it before anything else does. A regular file with
 * contents is followed by its EXTENTs in ascending order (what lies between them is a hole) and a
 * FILE_END; in a manifest by FILE_END alone. What could not be read is a FAULT, never left out in
 * silence; after a file it stands for its FILE_END. TREE_END comes last. Mount points are not
 * crossed; hard links become files of their own; contents may change while they are read.
 *
 * A FILE_END holds a SHA-256. In a manifest that is the content's, holes read as zeros. With
 * contents each hole is hashed as its length, so that a huge one costs nothing; a file without
 * holes has the same hash both ways.
 *
 * The reader is fed whatever bytes come and hands out whole records; it checks everything that can
 * be checked without a file system: order, sizes, paths, parents, kinds, counts, hashes of
 * contents. What it can't see is the same path twice.
 */
#ifndef TREESTREAM_H
#define TREESTREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "limits.h"
#include "sha256.h"
#include "wire.h"

#define TREE_EXTENT_MAX 32768 /* bytes of content in one EXTENT */
#define TREE_XATTR_MAX	8192  /* bytes of all extended attributes of one entry, encoded */
#define TREE_BODY_MAX	(TREE_EXTENT_MAX + 8)
#define TREE_HEADER	5
#define SHA256_SIZE	32
#define TREE_DEPTH_MAX	512 /* parts of a path */
#define TREE_NAME_MAX	255 /* bytes of one part of a path */

enum tree_record {
	TREE_ENTRY = 1,
	TREE_EXTENT = 2,
	TREE_FILE_END = 3,
	TREE_FAULT = 4,
	TREE_END = 5,
};

enum tree_type {
	TREE_FILE = 'f',
	TREE_DIRECTORY = 'd',
	TREE_LINK = 'l',
	TREE_FIFO = 'p',
	TREE_SOCKET = 's',
	TREE_CHARACTER = 'c',
	TREE_BLOCK = 'b',
};

struct tree_entry {
	enum tree_type type;
	uint32_t mode; /* permission bits, 07777 */
	uint32_t uid, gid;
	int64_t mtime_s;
	uint32_t mtime_ns;
	uint64_t size;	       /* of a file: where its content ends. Else 0 */
	uint32_t major, minor; /* of a device */
	struct bytes path;     /* relative, no empty, "." or ".." part, no NUL; "" for the first */
	struct bytes target;   /* of a link, no NUL. Else empty */
	struct bytes xattrs;   /* of a manifest: (name string, value string)*, sorted by name */
};

struct tree_extent {
	uint64_t offset;
	struct bytes data; /* 1 to TREE_EXTENT_MAX bytes */
};

struct tree_fault {
	uint32_t error; /* errno in the guest */
	struct bytes path;
};

/* Writers of one whole record. */
void put_tree_entry(struct writer *w, const struct tree_entry *m);
void put_tree_extent(struct writer *w, const struct tree_extent *m);
void put_tree_file_end(struct writer *w, const uint8_t sha256[SHA256_SIZE]);
void put_tree_fault(struct writer *w, const struct tree_fault *m);
void put_tree_end(struct writer *w, uint64_t entries);

/* One record, with what it borrows from the reader: valid until the next call. */
struct tree_item {
	enum tree_record kind;
	union {
		struct tree_entry entry;
		struct tree_extent extent;
		uint8_t sha256[SHA256_SIZE];
		struct tree_fault fault;
		uint64_t entries;
	};
};

/* The hash of a file's extents, for senders; the reader does it by itself. */
struct tree_hash {
	struct sha256 sha256;
	uint64_t at; /* up to here */
};

void tree_hash_init(struct tree_hash *h);
void tree_hash_add(struct tree_hash *h, uint64_t offset, struct bytes data);
void tree_hash_end(struct tree_hash *h, uint64_t size, uint8_t ret_sha256[SHA256_SIZE]);

/* The next of an entry's extended attributes. False: that was all. */
bool tree_xattr_next(struct reader *xattrs, struct bytes *ret_name, struct bytes *ret_value);

/* A stream as it arrives. No heap; tree_reader_init before use. */
struct tree_reader {
	bool manifest, ended;
	const char *wrong;	 /* what broke the stream, or NULL */
	uint64_t entries, bytes; /* that came; bytes of contents */
	bool in_file;
	uint64_t size;	       /* of the file whose content comes */
	struct tree_hash hash; /* of what came of it */
	bool in_folder;
	size_t folder_len;
	uint8_t folder[PATH_LENGTH]; /* that the last entry is, or is in */
	size_t len;
	uint8_t buf[TREE_HEADER + TREE_BODY_MAX];
};

void tree_reader_init(struct tree_reader *r, bool manifest);
/* Takes bytes from *data until a record is whole. False: all were taken and more are needed, or
 * r->wrong is set. */
bool tree_next(struct tree_reader *r, struct bytes *data, struct tree_item *ret_item);
/* TREE_END came, and nothing behind it. */
bool tree_complete(const struct tree_reader *r);

#endif
