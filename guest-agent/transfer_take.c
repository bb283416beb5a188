/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree stream made into files and folders of the guest.
 *
 * How it works. A descriptor is held for each folder from the top to where the last entry went, so
 * each name is made in a descriptor and no link is ever followed. What is no folder is made under
 * a passing name, complete with owner, mode and times, and renamed to its place. A new
 * folder gets those when the stream has left it.
 */
#include "transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "transfer_text.h"
#include "treestream.h"

#ifndef GRND_INSECURE
#define GRND_INSECURE 4 /* early in the boot too */
#endif
#define READ_SIZE    65536
#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* What an entry is to be in the end. */
struct looks {
	uint32_t mode, uid, gid;
	struct timespec times[2];
};

struct folder {
	int fd;
	bool made; /* by us: one that was there keeps its looks */
	size_t path_len;
	struct looks looks;
};

struct taker {
	const char *top;
	struct transfer_result *result;
	int parent; /* of the top */
	char top_name[PATH_LENGTH];
	unsigned depth; /* folders that are open */
	struct folder folders[TREE_DEPTH_MAX + 1];

	/* Of the last entry: */
	size_t path_len;
	uint8_t path[PATH_LENGTH];
	char name[TREE_NAME_MAX + 1]; /* of it, below the top */
	char passing[24];	      /* name of what is not complete; empty: nothing */
	int fd;			      /* of the file whose content comes, or -1 */
	uint64_t size;
	struct looks looks;

	struct tree_reader reader;
	uint8_t data[READ_SIZE];
};

static bool failed(struct taker *t, int error)
{
	return transfer_fail(t->result, error, t->top, bytes_of(t->path, t->path_len), NULL);
}

static bool broken(struct taker *t, const char *why)
{
	return transfer_fail(t->result, EPROTO, t->top, bytes_of(t->path, t->path_len), why);
}

static int place_dir(const struct taker *t)
{
	return t->depth ? t->folders[t->depth - 1].fd : t->parent;
}

static const char *place_name(const struct taker *t)
{
	return t->path_len ? t->name : t->top_name;
}

/* Owner first: the kernel takes set-user-ID bits away with each change of it. */
static bool dress(int fd, const struct looks *looks)
{
	return (geteuid() || fchown(fd, looks->uid, looks->gid) == 0) &&
	       fchmod(fd, looks->mode) == 0 && futimens(fd, looks->times) == 0;
}

static bool leave_folder(struct taker *t)
{
	struct folder *f = &t->folders[--t->depth];
	bool ok = !f->made || dress(f->fd, &f->looks);

	t->path_len = f->path_len;
	if (!ok)
		(void)failed(t, errno);
	close(f->fd);
	return ok;
}

/* The last entry is a folder: makes it, or takes the one that is there. */
static bool enter_folder(struct taker *t)
{
	struct folder *f = &t->folders[t->depth];

	f->made = mkdirat(place_dir(t), place_name(t), 0700) == 0;
	if (!f->made && errno != EEXIST)
		return failed(t, errno);
	f->fd = openat(place_dir(t), place_name(t), FOLDER_FLAGS);
	if (f->fd < 0)
		return failed(t, errno == ELOOP ? ENOTDIR : errno);
	f->path_len = t->path_len;
	f->looks = t->looks;
	t->depth++;
	return true;
}

static void name_passing(struct taker *t)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t random[8] = { 0 };
	char *at = t->passing;

	(void)!getrandom(random, sizeof(random), GRND_INSECURE);
	memcpy(at, ".part.", 6);
	at += 6;
	for (size_t i = 0; i < sizeof(random); i++) {
		*at++ = digits[random[i] >> 4];
		*at++ = digits[random[i] & 15];
	}
	*at = '\0';
}

static bool settle(struct taker *t)
{
	if (renameat(place_dir(t), t->passing, place_dir(t), place_name(t)) < 0)
		return failed(t, errno);
	t->passing[0] = '\0';
	return true;
}

static bool make_node(struct taker *t, const struct tree_entry *m)
{
	static const struct {
		enum tree_type type;
		mode_t mode;
	} kinds[] = { { TREE_FIFO, S_IFIFO }, { TREE_SOCKET, S_IFSOCK },
		{ TREE_CHARACTER, S_IFCHR }, { TREE_BLOCK, S_IFBLK } };
	mode_t mode = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (kinds[i].type == m->type)
			mode = kinds[i].mode | m->mode;
	return mknodat(place_dir(t), t->passing, mode, makedev(m->major, m->minor)) == 0;
}

static bool make_link(struct taker *t, const struct tree_entry *m)
{
	char target[PATH_LENGTH];

	memcpy(target, m->target.data, m->target.len);
	target[m->target.len] = '\0';
	return symlinkat(target, place_dir(t), t->passing) == 0;
}

static bool make_special(struct taker *t, const struct tree_entry *m)
{
	const struct looks *l = &t->looks;
	int dir = place_dir(t);

	name_passing(t);
	if (!(m->type == TREE_LINK ? make_link(t, m) : make_node(t, m)) ||
		(!geteuid() &&
			fchownat(dir, t->passing, l->uid, l->gid, AT_SYMLINK_NOFOLLOW) < 0) ||
		utimensat(dir, t->passing, l->times, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(t, errno);
	return settle(t);
}

static bool begin_file(struct taker *t)
{
	name_passing(t);
	t->fd = openat(place_dir(t), t->passing, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return t->fd >= 0 || failed(t, errno);
}

static bool end_file(struct taker *t)
{
	if (ftruncate(t->fd, (off_t)t->size) < 0 || !dress(t->fd, &t->looks))
		return failed(t, errno);
	close(t->fd);
	t->fd = -1;
	return settle(t);
}

static bool take_entry(struct taker *t, const struct tree_entry *m)
{
	size_t start = m->path.len;

	while (start && m->path.data[start - 1] != '/')
		start--;
	/* The reader saw to it that the parent is one of the open folders. */
	while (m->path.len && t->depth > 1 &&
		t->folders[t->depth - 1].path_len != (start ? start - 1 : 0))
		if (!leave_folder(t))
			return false;
	memcpy(t->path, m->path.data, m->path.len);
	t->path_len = m->path.len;
	memcpy(t->name, m->path.data + start, m->path.len - start);
	t->name[m->path.len - start] = '\0';
	t->size = m->size;
	t->looks = (struct looks){ m->mode & (geteuid() ? 01777 : 07777), m->uid, m->gid,
		{ { m->mtime_s, (long)m->mtime_ns }, { m->mtime_s, (long)m->mtime_ns } } };
	if (m->type == TREE_DIRECTORY)
		return enter_folder(t);
	return m->type == TREE_FILE ? begin_file(t) : make_special(t, m);
}

static bool take_extent(struct taker *t, const struct tree_extent *m)
{
	size_t at = 0;

	while (at < m->data.len) {
		ssize_t n =
			pwrite(t->fd, m->data.data + at, m->data.len - at, (off_t)(m->offset + at));

		if (n < 0)
			return failed(t, errno);
		at += (size_t)n;
	}
	return true;
}

static bool take_item(struct taker *t, const struct tree_item *item)
{
	switch (item->kind) {
	case TREE_ENTRY:
		return take_entry(t, &item->entry);
	case TREE_EXTENT:
		return take_extent(t, &item->extent);
	case TREE_FILE_END:
		return end_file(t);
	case TREE_FAULT:
		return transfer_fail(
			t->result, (int)item->fault.error, t->top, item->fault.path, NULL);
	case TREE_END:
		break;
	}
	while (t->depth)
		if (!leave_folder(t))
			return false;
	return true;
}

static bool take_stream(struct taker *t, int fd)
{
	struct tree_item item;

	for (;;) {
		ssize_t n = read(fd, t->data, sizeof(t->data));
		struct bytes data = bytes_of(t->data, n > 0 ? (size_t)n : 0);

		if (n < 0 && errno != EINTR)
			return failed(t, errno);
		t->result->bytes += data.len;
		while (data.len && tree_next(&t->reader, &data, &item))
			if (!take_item(t, &item))
				return false;
		if (t->reader.wrong)
			return broken(t, t->reader.wrong);
		if (!n)
			return tree_complete(&t->reader) || broken(t, "its sender stopped early");
	}
}

/* Opens the parent of the top, which is made if it is not there, and splits off its name. */
static bool find_top(struct taker *t, const char *path)
{
	char parent[PATH_LENGTH];
	size_t len = strlen(path), start;

	while (len > 1 && path[len - 1] == '/')
		len--;
	for (start = len; start && path[start - 1] != '/';)
		start--;
	if (len >= sizeof(parent) || !start)
		return failed(t, EINVAL);
	memcpy(parent, path, start);
	parent[start] = '\0';
	for (size_t i = 1; i < start; i++) {
		if (parent[i] != '/')
			continue;
		parent[i] = '\0';
		if (mkdir(parent, 0755) < 0 && errno != EEXIST && errno != EROFS)
			return failed(t, errno);
		parent[i] = '/';
	}
	memcpy(t->top_name, path + start, len - start);
	t->top_name[len - start] = '\0';
	if (len == start)
		memcpy(t->top_name, ".", 2);
	t->parent = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return t->parent >= 0 || failed(t, errno);
}

static void release(struct taker *t)
{
	if (t->passing[0])
		(void)unlinkat(place_dir(t), t->passing, 0);
	if (t->fd >= 0)
		close(t->fd);
	while (t->depth)
		close(t->folders[--t->depth].fd);
	if (t->parent >= 0)
		close(t->parent);
}

bool transfer_take(int fd, const char *path, struct transfer_result *ret_result)
{
	struct taker t = { .top = path, .result = ret_result, .parent = -1, .fd = -1 };
	bool ok;

	*ret_result = (struct transfer_result){ 0 };
	tree_reader_init(&t.reader, false);
	umask(022);
	ok = find_top(&t, path);
	umask(0);
	ok = ok && take_stream(&t, fd);
	ret_result->entries = t.reader.entries;
	release(&t);
	return ok;
}
