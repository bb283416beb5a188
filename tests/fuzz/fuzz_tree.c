/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tree streams. As raw bytes: however they are torn they read the same, and what reads encodes to
 * the very same bytes. As a plan of records whose hashes are right: what a host receives stays in
 * its folder, and leaves nothing when it fails.
 */
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link/tree_receive.h"
#include "link/tree_remove.h"
#include "treestream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode(struct writer *w, const struct tree_item *item)
{
	switch (item->kind) {
	case TREE_ENTRY:
		put_tree_entry(w, &item->entry);
		break;
	case TREE_EXTENT:
		put_tree_extent(w, &item->extent);
		break;
	case TREE_FILE_END:
		put_tree_file_end(w, item->sha256);
		break;
	case TREE_FAULT:
		put_tree_fault(w, &item->fault);
		break;
	case TREE_END:
		put_tree_end(w, item->entries);
		break;
	}
}

static const char *read_raw(struct bytes all, bool manifest, size_t step, unsigned *ret_items)
{
	static struct tree_reader r;
	static uint8_t again[1 << 16];
	struct writer w = writer_of(again, sizeof(again));
	struct tree_item item;

	tree_reader_init(&r, manifest);
	*ret_items = 0;
	for (size_t at = 0; at < all.len && !r.wrong; at += step) {
		struct bytes piece =
			bytes_of(all.data + at, all.len - at < step ? all.len - at : step);

		while (tree_next(&r, &piece, &item)) {
			encode(&w, &item);
			++*ret_items;
		}
		assert(r.wrong || !piece.len);
	}
	assert(!w.bad && (size_t)(w.at - again) <= all.len);
	assert(!memcmp(again, all.data, (size_t)(w.at - again)));
	return r.wrong;
}

static void check_raw(struct bytes all)
{
	for (int manifest = 0; manifest < 2; manifest++) {
		unsigned whole, torn;
		const char *wrong = read_raw(all, manifest, 1 << 16, &whole);

		assert(read_raw(all, manifest, 1, &torn) == wrong);
		assert(whole == torn);
	}
}

/* One name of a few, some of them wrong; sometimes two or three, one in the other. */
static const char *plan_path(struct reader *plan, char path[64])
{
	static const char *const names[] = { "a", "b", "c", "..", ".", "", "tree", "a/b" };
	unsigned pick = get_u16(plan);

	path[0] = '\0';
	for (unsigned n = pick & 3; n; n--) {
		pick >>= 3;
		strcat(path, names[pick & 7]);
		if (n > 1)
			strcat(path, "/");
	}
	return path;
}

static void plan_file(struct reader *plan, struct writer *w, uint64_t size)
{
	struct tree_hash hash;
	uint8_t sha256[SHA256_SIZE], steps;

	tree_hash_init(&hash);
	for (steps = get_u8(plan) & 3; steps; steps--) {
		struct tree_extent m = { hash.at + get_u8(plan), bytes_of("some content", 12) };

		put_tree_extent(w, &m);
		tree_hash_add(&hash, m.offset, m.data);
	}
	tree_hash_end(&hash, size > hash.at ? size : hash.at, sha256);
	put_tree_file_end(w, sha256);
}

static void plan_record(struct reader *plan, struct writer *w, uint64_t *entries)
{
	static const char types[] = "fdlpscbd";
	static const char *const targets[] = { "a", "..", "/", "../outside" };
	unsigned kind = get_u8(plan);
	struct tree_entry m = { .type = (enum tree_type)types[kind & 7] };
	char path[64];

	if ((kind & 0xf8) == 0xf8) {
		put_tree_fault(w, &(struct tree_fault){ 5, bytes_str(plan_path(plan, path)) });
		return;
	}
	m.path = *entries ? bytes_str(plan_path(plan, path)) : bytes_str("");
	m.mode = get_u16(plan) & 07777;
	m.mtime_s = (int8_t)get_u8(plan);
	if (m.type == TREE_LINK)
		m.target = bytes_str(targets[get_u8(plan) & 3]);
	if (m.type == TREE_FILE)
		m.size = get_u16(plan);
	put_tree_entry(w, &m);
	++*entries;
	if (m.type == TREE_FILE)
		plan_file(plan, w, m.size);
}

static struct bytes make_plan(struct bytes data)
{
	static uint8_t stream[1 << 18];
	struct reader plan = reader_of(data);
	struct writer w = writer_of(stream, sizeof(stream));
	uint64_t entries = 0;

	while (plan.at < plan.end && !plan.bad && sizeof(stream) - (size_t)(w.at - stream) > 1024)
		plan_record(&plan, &w, &entries);
	put_tree_end(&w, entries);
	return bytes_of(stream, (size_t)(w.at - stream));
}

static unsigned names_in(const char *path)
{
	DIR *dir = opendir(path);
	unsigned n = 0;

	assert(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2;
}

static char dir[] = "/dev/shm/fuzz-tree.XXXXXX";

static void tidy(void)
{
	(void)!(rmdir("in") || rmdir("outside") || rmdir(dir));
}

static void check_receiver(struct bytes stream)
{
	struct tree_report report;
	struct tree_sink *sink;
	struct err err;
	bool ok;
	int fd;

	if (dir[strlen(dir) - 1] == 'X') {
		assert(mkdtemp(dir) && chdir(dir) == 0);
		assert(atexit(tidy) == 0);
		assert(mkdir("outside", 0700) == 0 && mkdir("in", 0700) == 0);
	}
	sink = tree_sink_new("in/target", false, &err);
	assert(sink);
	ok = tree_sink_take(sink, stream, &err) && tree_sink_finish(sink, &report, &err);
	tree_sink_free(sink);
	assert(names_in("in") == ok && names_in(".") == 2 && !names_in("outside"));
	fd = open("in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	tree_remove_below(fd);
	close(fd);
	assert(!names_in("in"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	check_raw(bytes_of(data + 1, size - 1));
	check_receiver(data[0] & 1 ? bytes_of(data + 1, size - 1)
				   : make_plan(bytes_of(data + 1, size - 1)));
	return 0;
}
