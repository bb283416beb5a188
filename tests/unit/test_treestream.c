/* SPDX-License-Identifier: Apache-2.0 */
/* The tree stream: every record, torn everywhere, and every rule broken once. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "tree_script.h"
#include "treestream.h"

static struct script s;
static struct tree_reader r;

/* Reads all in pieces; says how many records came, and what broke it (NULL: nothing). */
static const char *read_all(bool manifest, size_t step, unsigned *ret_items)
{
	struct bytes all = script_bytes(&s);
	struct tree_item item;

	tree_reader_init(&r, manifest);
	*ret_items = 0;
	for (size_t at = 0; at < all.len; at += step) {
		struct bytes piece =
			bytes_of(all.data + at, all.len - at < step ? all.len - at : step);

		while (tree_next(&r, &piece, &item))
			++*ret_items;
		if (r.wrong)
			return r.wrong;
		CHECK_INT(piece.len, 0);
	}
	return NULL;
}

static void good(bool manifest, unsigned items)
{
	unsigned n;

	CHECK_STR(read_all(manifest, 1 << 20, &n), NULL);
	CHECK(tree_complete(&r));
	CHECK_INT(n, items);
}

static void bad(const char *why)
{
	unsigned n;

	CHECK_STR(read_all(false, 1 << 20, &n), why);
	CHECK(!tree_complete(&r));
}

static void begin(void)
{
	script_init(&s);
	script_folder(&s, "");
}

static void everything(void)
{
	struct tree_entry device = script_entry(TREE_CHARACTER, "dev");
	static const uint8_t big[TREE_EXTENT_MAX] = { 7 };

	begin();
	script_text(&s, "a", "hello");
	script_text(&s, "empty", "");
	script_folder(&s, "sub");
	script_folder(&s, "sub/deep");
	script_link(&s, "sub/deep/link", "/etc/passwd");
	script_file(&s, "sub/holes", 1000000);
	script_extent(&s, 4096, "x", 1);
	script_extent(&s, 4097, big, sizeof(big));
	script_file_end(&s, 1000000);
	device.major = 1;
	device.minor = 3;
	script_add(&s, &device);
	script_fault(&s, EACCES, "gone");
	script_file(&s, "half", 10);
	script_fault(&s, EIO, "half");
	script_end(&s);
}

TEST(each_record)
{
	everything();
	good(false, 18);
	CHECK_INT(r.entries, 9);
	CHECK_INT(r.bytes, 5 + 1 + TREE_EXTENT_MAX);
}

TEST(what_comes_is_what_was_sent)
{
	struct tree_entry m = script_entry(TREE_BLOCK, "");
	struct bytes data;
	struct tree_item item;

	m.uid = 0xfffffffe;
	m.gid = 77;
	m.mode = 06755;
	m.mtime_s = -5;
	m.major = 8;
	m.minor = 0xfffff;
	script_init(&s);
	script_add(&s, &m);
	script_end(&s);
	tree_reader_init(&r, false);
	data = script_bytes(&s);
	CHECK(tree_next(&r, &data, &item));
	CHECK_INT(item.kind, TREE_ENTRY);
	CHECK_INT(item.entry.type, TREE_BLOCK);
	CHECK_INT(item.entry.uid, 0xfffffffe);
	CHECK_INT(item.entry.gid, 77);
	CHECK_INT(item.entry.mode, 06755);
	CHECK_INT(item.entry.mtime_s, -5);
	CHECK_INT(item.entry.mtime_ns, 123456789);
	CHECK_INT(item.entry.major, 8);
	CHECK_INT(item.entry.minor, 0xfffff);
	CHECK_INT(item.entry.path.len, 0);
	CHECK(tree_next(&r, &data, &item));
	CHECK_INT(item.kind, TREE_END);
	CHECK(!tree_next(&r, &data, &item));
	CHECK(tree_complete(&r));
}

TEST(torn_at_every_byte)
{
	struct bytes all;
	unsigned n;

	everything();
	all = script_bytes(&s);
	for (size_t step = 1; step < 100; step++) {
		CHECK_STR(read_all(false, step, &n), NULL);
		CHECK(tree_complete(&r));
		CHECK_INT(n, 18);
	}
	for (size_t len = 0; len < all.len; len += len < 400 ? 1 : 97) {
		struct bytes first = bytes_of(all.data, len);
		struct bytes rest = bytes_of(all.data + len, all.len - len);
		struct tree_item item;

		tree_reader_init(&r, false);
		while (tree_next(&r, &first, &item))
			;
		CHECK(!r.wrong && !tree_complete(&r));
		while (tree_next(&r, &rest, &item))
			;
		CHECK(tree_complete(&r));
	}
}

TEST(paths)
{
	static const char *const wrong[] = { "/", "/a", "a/", "a//b", ".", "..", "./a", "../a",
		"a/..", "a/../b", "a/./b", "//" };
	char long_name[TREE_NAME_MAX + 2];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		begin();
		script_folder(&s, "a");
		script_text(&s, wrong[i], "");
		bad("a path that is not allowed");
	}
	begin();
	for (const char *const *p = (const char *const[]){ "...", "..a", ".a", "a..", " ", "\n",
		     "\xc3\xa4", NULL };
		*p; p++)
		script_text(&s, *p, "");
	script_end(&s);
	good(false, 1 + 14 + 1);
	memset(long_name, 'n', sizeof(long_name));
	long_name[TREE_NAME_MAX] = '\0';
	begin();
	script_text(&s, long_name, "");
	script_end(&s);
	good(false, 4);
	long_name[TREE_NAME_MAX] = 'n';
	long_name[TREE_NAME_MAX + 1] = '\0';
	begin();
	script_text(&s, long_name, "");
	bad("a path that is not allowed");
}

TEST(path_with_nul)
{
	struct tree_entry m = script_entry(TREE_FILE, "a");

	m.path = bytes_of("a\0b", 3);
	begin();
	script_add(&s, &m);
	bad("a path that is not allowed");
	begin();
	script_fault(&s, EIO, "../x");
	bad("a fault that does not decode");
}

TEST(depth)
{
	char path[PATH_LENGTH] = "";

	begin();
	for (int i = 0; i < TREE_DEPTH_MAX; i++) {
		strcat(path, i ? "/d" : "d");
		script_folder(&s, path);
	}
	script_end(&s);
	good(false, TREE_DEPTH_MAX + 2);
	s.w.at -= TREE_HEADER + 8;
	strcat(path, "/d");
	script_folder(&s, path);
	bad("a path that is not allowed");
}

TEST(parents_come_first)
{
	static const char *const wrong[] = { "b/x", "a/file/x", "a/link/x", "a/sub2/x", "a/su/x",
		"a/b/c/d" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		begin();
		script_folder(&s, "a");
		script_folder(&s, "a/sub");
		script_text(&s, "a/sub/x", "");
		script_text(&s, "a/file", "");
		script_link(&s, "a/link", "/tmp");
		script_text(&s, wrong[i], "");
		bad("an entry whose folder did not come before it");
	}
	/* A folder that was left is not entered again. */
	begin();
	script_folder(&s, "a");
	script_folder(&s, "b");
	script_text(&s, "a/x", "");
	bad("an entry whose folder did not come before it");
	/* Nothing is inside a file. */
	script_init(&s);
	script_text(&s, "", "top");
	script_text(&s, "a", "");
	bad("an entry whose folder did not come before it");
}

TEST(first_path_is_empty)
{
	script_init(&s);
	script_folder(&s, "a");
	bad("an entry in the wrong place");
	begin();
	script_folder(&s, "");
	bad("an entry in the wrong place");
}

TEST(contents)
{
	static const struct {
		uint64_t size, first, second;
	} wrong[] = { { 10, 5, 0 }, { 10, 5, 7 }, { 10, 0, 8 }, { 10, 8, 0 }, { 0, 0, 0 },
		{ 10, 11, 0 }, { 10, UINT64_MAX, 0 }, { 10, UINT64_MAX - 1, 0 } };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		begin();
		script_file(&s, "f", wrong[i].size);
		script_extent(&s, wrong[i].first, "abc", 3);
		script_extent(&s, wrong[i].second, "abc", 3);
		bad("content out of its place");
	}
	begin();
	script_extent(&s, 0, "abc", 3);
	bad("content without a file");
	begin();
	script_text(&s, "f", "abc");
	script_extent(&s, 3, "abc", 3);
	bad("content without a file");
	begin();
	script_file_end(&s, 0);
	bad("the end of a file without a file");
	begin();
	script_file(&s, "f", 0);
	script_text(&s, "g", "");
	bad("an entry inside a file");
	begin();
	script_file(&s, "f", 0);
	script_end(&s);
	bad("an end that comes too early");
}

TEST(empty_extent)
{
	begin();
	script_file(&s, "f", 10);
	script_extent(&s, 0, "", 0);
	bad("a record that can't be");
}

TEST(hashes)
{
	begin();
	script_text(&s, "f", "abc");
	s.w.at[-1] ^= 1;
	bad("content that does not match its hash");
	/* A hole at another place is another content. */
	begin();
	script_file(&s, "f", 10);
	tree_hash_init(&s.hash);
	script_extent(&s, 1, "abc", 3);
	s.hash.at = 0;
	script_file_end(&s, 10);
	bad("content that does not match its hash");
}

TEST(a_huge_hole_costs_nothing)
{
	begin();
	script_file(&s, "f", INT64_MAX);
	script_extent(&s, INT64_MAX - 1, "x", 1);
	script_file_end(&s, INT64_MAX);
	script_end(&s);
	good(false, 5);
}

TEST(entries_that_cannot_be)
{
	struct tree_entry m[12];
	size_t n = sizeof(m) / sizeof(*m);

	for (size_t i = 0; i < n; i++)
		m[i] = script_entry(TREE_FILE, "x");
	m[0].mode = 010000;
	m[1].mtime_ns = 1000000000;
	m[2].type = (enum tree_type)'x';
	m[3].type = (enum tree_type)0;
	m[4].size = (uint64_t)INT64_MAX + 1;
	m[5].major = 1;
	m[6].target = bytes_str("a");
	m[7].type = TREE_LINK;
	m[8].type = TREE_LINK;
	m[8].target = bytes_of("a\0b", 3);
	m[9].type = TREE_DIRECTORY;
	m[9].size = 1;
	m[10].type = TREE_FIFO;
	m[10].minor = 1;
	m[11].type = (enum tree_type)0xff;
	for (size_t i = 0; i < n; i++) {
		begin();
		script_add(&s, &m[i]);
		bad("an entry that can't be");
	}
	m[0] = script_entry(TREE_DIRECTORY, "x");
	m[0].xattrs = bytes_str("x");
	begin();
	script_add(&s, &m[0]);
	bad("wrong extended attributes");
}

TEST(the_end)
{
	begin();
	s.entries = 2;
	script_end(&s);
	bad("an end that comes too early");
	script_init(&s);
	script_end(&s);
	bad("an end that comes too early");
	begin();
	script_end(&s);
	put_u8(&s.w, 0);
	bad("bytes behind its end");
}

TEST(lengths_are_judged_early)
{
	static const struct {
		uint8_t kind;
		uint32_t len;
	} rows[] = { { 0, 0 }, { 6, 0 }, { 255, 8 }, { 1, 52 }, { 1, 20000 }, { 2, 8 },
		{ 2, 8 + TREE_EXTENT_MAX + 1 }, { 3, 31 }, { 3, 33 }, { 4, 7 }, { 4, 5000 },
		{ 5, 7 }, { 5, 9 }, { 2, UINT32_MAX } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		begin();
		put_u8(&s.w, rows[i].kind);
		put_u32(&s.w, rows[i].len);
		bad("a record that can't be");
	}
}

static void add_xattr(struct writer *w, const char *name, const char *value)
{
	put_bytes(w, bytes_str(name));
	put_bytes(w, bytes_str(value));
}

static const char *manifest_of(struct bytes xattrs)
{
	struct tree_entry m = script_entry(TREE_DIRECTORY, "");
	unsigned n;

	m.xattrs = xattrs;
	script_init(&s);
	script_add(&s, &m);
	script_end(&s);
	return read_all(true, 1 << 20, &n);
}

TEST(extended_attributes)
{
	uint8_t buf[2 * TREE_XATTR_MAX];
	struct writer w = writer_of(buf, sizeof(buf));
	struct bytes name, value;
	struct reader list;

	add_xattr(&w, "security.a", "1");
	add_xattr(&w, "security.aa", "");
	add_xattr(&w, "user.b", "xyz");
	CHECK_STR(manifest_of(bytes_of(buf, (size_t)(w.at - buf))), NULL);
	list = reader_of(bytes_of(buf, (size_t)(w.at - buf)));
	CHECK(tree_xattr_next(&list, &name, &value));
	CHECK(tree_xattr_next(&list, &name, &value) && name.len == 11 && !value.len);
	CHECK(tree_xattr_next(&list, &name, &value) && value.len == 3);
	CHECK(!tree_xattr_next(&list, &name, &value));
	CHECK_STR(
		manifest_of(bytes_of(buf, (size_t)(w.at - buf) - 1)), "wrong extended attributes");
	add_xattr(&w, "user.a", "");
	CHECK_STR(manifest_of(bytes_of(buf, (size_t)(w.at - buf))), "wrong extended attributes");
	w = writer_of(buf, sizeof(buf));
	add_xattr(&w, "a", "");
	add_xattr(&w, "a", "");
	CHECK_STR(manifest_of(bytes_of(buf, (size_t)(w.at - buf))), "wrong extended attributes");
	w = writer_of(buf, sizeof(buf));
	add_xattr(&w, "", "");
	CHECK_STR(manifest_of(bytes_of(buf, (size_t)(w.at - buf))), "wrong extended attributes");
}

TEST(manifest)
{
	uint8_t any[SHA256_SIZE] = { 1 };
	unsigned n;

	begin();
	script_fault(&s, E2BIG, "f");
	script_file(&s, "f", 77);
	put_tree_file_end(&s.w, any);
	script_file(&s, "g", 78);
	script_fault(&s, EIO, "g");
	script_end(&s);
	good(true, 7);
	begin();
	script_file(&s, "f", 3);
	script_extent(&s, 0, "abc", 3);
	CHECK_STR(read_all(true, 1 << 20, &n), "content without a file");
}

TEST(what_is_too_large_is_not_written)
{
	uint8_t buf[64];
	struct writer w = writer_of(buf, sizeof(buf));
	struct tree_entry m = script_entry(TREE_FILE, "a-name-that-does-not-fit-here");

	put_tree_entry(&w, &m);
	CHECK(w.bad);
}
