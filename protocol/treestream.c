/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the tree stream, written one by one and read from any pieces of it. */
#include "treestream.h"

#include <limits.h>

#define ENTRY_FIXED  (1 + 3 * 4 + 8 + 4 + 8 + 2 * 4 + 3 * 4)
#define EXTENT_FIXED 8
#define ERRNO_MAX    4095

static_assert(ENTRY_FIXED + 2 * PATH_LENGTH + TREE_XATTR_MAX <= TREE_BODY_MAX, "an entry fits");

static void put_header(struct writer *w, enum tree_record kind, size_t len)
{
	put_u8(w, (uint8_t)kind);
	put_u32(w, (uint32_t)len);
}

void put_tree_entry(struct writer *w, const struct tree_entry *m)
{
	put_header(w, TREE_ENTRY, ENTRY_FIXED + m->path.len + m->target.len + m->xattrs.len);
	put_u8(w, (uint8_t)m->type);
	put_u32(w, m->mode);
	put_u32(w, m->uid);
	put_u32(w, m->gid);
	put_u64(w, (uint64_t)m->mtime_s);
	put_u32(w, m->mtime_ns);
	put_u64(w, m->size);
	put_u32(w, m->major);
	put_u32(w, m->minor);
	put_bytes(w, m->path);
	put_bytes(w, m->target);
	put_bytes(w, m->xattrs);
}

static bool get_entry(struct reader *r, struct tree_entry *m)
{
	m->type = (enum tree_type)get_u8(r);
	m->mode = get_u32(r);
	m->uid = get_u32(r);
	m->gid = get_u32(r);
	m->mtime_s = (int64_t)get_u64(r);
	m->mtime_ns = get_u32(r);
	m->size = get_u64(r);
	m->major = get_u32(r);
	m->minor = get_u32(r);
	m->path = get_bytes(r);
	m->target = get_bytes(r);
	m->xattrs = get_bytes(r);
	return reader_done(r);
}

void put_tree_extent(struct writer *w, const struct tree_extent *m)
{
	put_header(w, TREE_EXTENT, EXTENT_FIXED + m->data.len);
	put_u64(w, m->offset);
	put_raw(w, m->data.data, m->data.len);
}

void put_tree_file_end(struct writer *w, const uint8_t sha256[SHA256_SIZE])
{
	put_header(w, TREE_FILE_END, SHA256_SIZE);
	put_raw(w, sha256, SHA256_SIZE);
}

void put_tree_fault(struct writer *w, const struct tree_fault *m)
{
	put_header(w, TREE_FAULT, 4 + 4 + m->path.len);
	put_u32(w, m->error);
	put_bytes(w, m->path);
}

void put_tree_end(struct writer *w, uint64_t entries)
{
	put_header(w, TREE_END, 8);
	put_u64(w, entries);
}

void tree_hash_init(struct tree_hash *h)
{
	sha256_init(&h->sha256);
	h->at = 0;
}

static void hash_hole(struct tree_hash *h, uint64_t end)
{
	uint8_t length[8];
	struct writer w = writer_of(length, sizeof(length));

	if (end == h->at)
		return;
	put_u64(&w, end - h->at);
	sha256_add(&h->sha256, length, sizeof(length));
	h->at = end;
}

void tree_hash_add(struct tree_hash *h, uint64_t offset, struct bytes data)
{
	hash_hole(h, offset);
	sha256_add(&h->sha256, data.data, data.len);
	h->at += data.len;
}

void tree_hash_end(struct tree_hash *h, uint64_t size, uint8_t ret_sha256[SHA256_SIZE])
{
	hash_hole(h, size);
	sha256_end(&h->sha256, ret_sha256);
}

bool tree_xattr_next(struct reader *xattrs, struct bytes *ret_name, struct bytes *ret_value)
{
	if (xattrs->at == xattrs->end)
		return false;
	*ret_name = get_bytes(xattrs);
	*ret_value = get_bytes(xattrs);
	return !xattrs->bad;
}

static bool holds_nul(struct bytes b)
{
	return b.len && memchr(b.data, 0, b.len);
}

static int compare(struct bytes a, struct bytes b)
{
	int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);

	return order ? order : (a.len > b.len) - (a.len < b.len);
}

static bool xattrs_fine(struct bytes xattrs)
{
	struct bytes last = { NULL, 0 }, name, value;
	struct reader r = reader_of(xattrs);

	if (xattrs.len > TREE_XATTR_MAX)
		return false;
	while (tree_xattr_next(&r, &name, &value)) {
		if (!name.len || holds_nul(name) || (last.len && compare(last, name) >= 0))
			return false;
		last = name;
	}
	return reader_done(&r);
}

/* Empty, or relative and made of a bearable number of parts, none of them empty, "." nor "..". */
static bool path_fine(struct bytes path)
{
	size_t start = 0, parts = 0;

	if (path.len >= PATH_LENGTH || holds_nul(path))
		return false;
	for (size_t i = 0; path.len && i <= path.len; i++) {
		size_t len = i - start;

		if (i < path.len && path.data[i] != '/')
			continue;
		if (++parts > TREE_DEPTH_MAX)
			return false;
		if (!len || len > TREE_NAME_MAX ||
			(len <= 2 && !memcmp(path.data + start, "..", len)))
			return false;
		start = i + 1;
	}
	return true;
}

static bool type_fine(const struct tree_entry *m)
{
	bool device = m->type == TREE_CHARACTER || m->type == TREE_BLOCK;

	if (!m->type || !strchr("fdlpscb", (int)m->type))
		return false;
	if (m->target.len >= PATH_LENGTH || holds_nul(m->target))
		return false;
	return (m->type == TREE_LINK) == (m->target.len > 0) &&
	       (device || !(m->major | m->minor)) && (m->type == TREE_FILE || !m->size) &&
	       m->size <= INT64_MAX;
}

/* Is it in the folder that the last entry is or is in, or in one above? Then it came. */
static bool parent_came(const struct tree_reader *r, struct bytes path)
{
	size_t len = path.len;

	while (len && path.data[len - 1] != '/')
		len--;
	if (!len)
		return r->in_folder;
	len--;
	return r->in_folder && len <= r->folder_len && !memcmp(r->folder, path.data, len) &&
	       (len == r->folder_len || r->folder[len] == '/');
}

/* path passed parent_came. */
static void enter(struct tree_reader *r, const struct tree_entry *m)
{
	size_t len = m->path.len;

	if (m->type != TREE_DIRECTORY)
		while (len && (len == m->path.len || m->path.data[len] != '/'))
			len--;
	else
		r->in_folder = true;
	memcpy(r->folder, m->path.data, len);
	r->folder_len = len;
}

static const char *take_entry(struct tree_reader *r, struct reader *body, struct tree_entry *m)
{
	if (r->in_file)
		return "an entry inside a file";
	if (!get_entry(body, m))
		return "an entry that does not decode";
	if (!type_fine(m) || m->mode > 07777 || m->mtime_ns >= 1000000000)
		return "an entry that can't be";
	if (!path_fine(m->path))
		return "a path that is not allowed";
	if (!r->entries != !m->path.len)
		return "an entry in the wrong place";
	if (r->entries && !parent_came(r, m->path))
		return "an entry whose folder did not come before it";
	if (r->manifest ? !xattrs_fine(m->xattrs) : m->xattrs.len > 0)
		return "wrong extended attributes";
	enter(r, m);
	r->in_file = m->type == TREE_FILE;
	r->size = m->size;
	tree_hash_init(&r->hash);
	r->entries++;
	return NULL;
}

static const char *take_extent(struct tree_reader *r, struct reader *body, struct tree_extent *m)
{
	m->offset = get_u64(body);
	m->data = bytes_of(body->at, (size_t)(body->end - body->at));
	if (!r->in_file || r->manifest)
		return "content without a file";
	if (m->offset < r->hash.at || m->offset > r->size || m->data.len > r->size - m->offset)
		return "content out of its place";
	tree_hash_add(&r->hash, m->offset, m->data);
	r->bytes += m->data.len;
	return NULL;
}

static const char *take_file_end(struct tree_reader *r, struct reader *body, uint8_t *sha256)
{
	uint8_t mine[SHA256_SIZE];

	get_raw(body, sha256, SHA256_SIZE);
	if (!r->in_file)
		return "the end of a file without a file";
	r->in_file = false;
	if (r->manifest)
		return NULL;
	tree_hash_end(&r->hash, r->size, mine);
	return memcmp(mine, sha256, SHA256_SIZE) ? "content that does not match its hash" : NULL;
}

static const char *take_fault(struct tree_reader *r, struct reader *body, struct tree_fault *m)
{
	m->error = get_u32(body);
	m->path = get_bytes(body);
	if (!reader_done(body) || !path_fine(m->path) || !m->error || m->error > ERRNO_MAX)
		return "a fault that does not decode";
	r->in_file = false;
	return NULL;
}

static const char *take_end(struct tree_reader *r, struct reader *body, uint64_t *entries)
{
	*entries = get_u64(body);
	if (r->in_file || !r->entries || *entries != r->entries)
		return "an end that comes too early";
	r->ended = true;
	return NULL;
}

static const char *take(struct tree_reader *r, struct tree_item *item)
{
	struct reader body = reader_of(bytes_of(r->buf + TREE_HEADER, r->len - TREE_HEADER));

	item->kind = r->buf[0];
	switch (item->kind) {
	case TREE_ENTRY:
		return take_entry(r, &body, &item->entry);
	case TREE_EXTENT:
		return take_extent(r, &body, &item->extent);
	case TREE_FILE_END:
		return take_file_end(r, &body, item->sha256);
	case TREE_FAULT:
		return take_fault(r, &body, &item->fault);
	case TREE_END:
		break;
	}
	return take_end(r, &body, &item->entries);
}

/* A length that its kind can't have is judged before the body is waited for. */
static bool header_fine(unsigned kind, size_t len)
{
	static const uint16_t least[] = { [TREE_ENTRY] = ENTRY_FIXED,
		[TREE_EXTENT] = EXTENT_FIXED + 1,
		[TREE_FILE_END] = SHA256_SIZE,
		[TREE_FAULT] = 8,
		[TREE_END] = 8 };
	static const uint16_t most[] = { [TREE_ENTRY] = ENTRY_FIXED + 2 * (PATH_LENGTH - 1) +
							TREE_XATTR_MAX,
		[TREE_EXTENT] = EXTENT_FIXED + TREE_EXTENT_MAX,
		[TREE_FILE_END] = SHA256_SIZE,
		[TREE_FAULT] = 8 + PATH_LENGTH - 1,
		[TREE_END] = 8 };

	return kind >= TREE_ENTRY && kind <= TREE_END && len >= least[kind] && len <= most[kind];
}

/* Moves bytes until the buffer holds `want` of them. */
static bool fill(struct tree_reader *r, struct bytes *data, size_t want)
{
	size_t n = r->len < want ? want - r->len : 0;

	if (n > data->len)
		n = data->len;
	if (n) {
		memcpy(r->buf + r->len, data->data, n);
		*data = bytes_of(data->data + n, data->len - n);
		r->len += n;
	}
	return r->len >= want;
}

void tree_reader_init(struct tree_reader *r, bool manifest)
{
	r->manifest = manifest;
	r->ended = r->in_file = r->in_folder = false;
	r->wrong = NULL;
	r->entries = r->bytes = 0;
	r->folder_len = r->len = 0;
}

bool tree_next(struct tree_reader *r, struct bytes *data, struct tree_item *ret_item)
{
	struct tree_item item;
	struct reader header;
	unsigned kind;
	size_t len;

	if (!r->wrong && r->ended && data->len)
		r->wrong = "bytes behind its end";
	if (r->wrong || r->ended || !fill(r, data, TREE_HEADER))
		return false;
	header = reader_of(bytes_of(r->buf, TREE_HEADER));
	kind = get_u8(&header);
	len = get_u32(&header);
	if (!header_fine(kind, len)) {
		r->wrong = "a record that can't be";
		return false;
	}
	if (!fill(r, data, TREE_HEADER + len))
		return false;
	r->wrong = take(r, &item);
	r->len = 0;
	if (r->wrong)
		return false;
	*ret_item = item;
	return true;
}

bool tree_complete(const struct tree_reader *r)
{
	return r->ended && !r->wrong;
}
