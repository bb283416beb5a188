/* SPDX-License-Identifier: Apache-2.0 */
/* Puts records into one buffer. */
#include "tree_script.h"

#include "test.h"

void script_init(struct script *s)
{
	s->w = writer_of(s->buf, sizeof(s->buf));
	s->entries = 0;
}

struct bytes script_bytes(const struct script *s)
{
	CHECK(!s->w.bad);
	return bytes_of(s->buf, (size_t)(s->w.at - s->buf));
}

struct tree_entry script_entry(enum tree_type type, const char *path)
{
	return (struct tree_entry){ .type = type,
		.mode = type == TREE_DIRECTORY ? 0755 : 0644,
		.mtime_s = 1000000000,
		.mtime_ns = 123456789,
		.path = bytes_str(path) };
}

void script_add(struct script *s, const struct tree_entry *m)
{
	put_tree_entry(&s->w, m);
	s->entries++;
	tree_hash_init(&s->hash);
}

void script_folder(struct script *s, const char *path)
{
	struct tree_entry m = script_entry(TREE_DIRECTORY, path);

	script_add(s, &m);
}

void script_link(struct script *s, const char *path, const char *target)
{
	struct tree_entry m = script_entry(TREE_LINK, path);

	m.target = bytes_str(target);
	script_add(s, &m);
}

void script_file(struct script *s, const char *path, uint64_t size)
{
	struct tree_entry m = script_entry(TREE_FILE, path);

	m.size = size;
	script_add(s, &m);
}

void script_extent(struct script *s, uint64_t offset, const void *data, size_t len)
{
	const struct tree_extent m = { offset, bytes_of(data, len) };

	put_tree_extent(&s->w, &m);
	tree_hash_add(&s->hash, offset, m.data);
}

void script_file_end(struct script *s, uint64_t size)
{
	uint8_t sha256[SHA256_SIZE];

	tree_hash_end(&s->hash, size, sha256);
	put_tree_file_end(&s->w, sha256);
}

void script_text(struct script *s, const char *path, const char *text)
{
	script_file(s, path, strlen(text));
	if (*text)
		script_extent(s, 0, text, strlen(text));
	script_file_end(s, strlen(text));
}

void script_fault(struct script *s, int error, const char *path)
{
	const struct tree_fault m = { (uint32_t)error, bytes_str(path) };

	put_tree_fault(&s->w, &m);
}

void script_end(struct script *s)
{
	put_tree_end(&s->w, s->entries);
}
