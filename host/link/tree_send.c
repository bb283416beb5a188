/* SPDX-License-Identifier: Apache-2.0 */
/* A walk that can stop after each record: folders that are open, and the file that is being read.
 */
#include "tree_send.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tree_text.h"

#include "base/fd.h"
#include "base/xalloc.h"

#define READ_FLAGS (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

struct tree_source {
	char *top;
	enum { SOURCE_NEW, SOURCE_WALK, SOURCE_FILE, SOURCE_ENDED } state;
	unsigned depth; /* folders that are open */
	struct {
		DIR *dir;
		size_t path_len;
	} folders[TREE_DEPTH_MAX + 1];
	size_t path_len;
	char path[PATH_LENGTH]; /* of the last entry, below top */

	int fd; /* of the file whose content is sent, or -1 */
	uint64_t size, at, island_end;
	struct tree_hash hash;

	uint64_t entries, bytes;
	struct writer out;
	uint8_t record[TREE_HEADER + TREE_BODY_MAX];
	uint8_t data[TREE_EXTENT_MAX];
};

static bool failed_as(const struct tree_source *s, const char *why, struct err *err)
{
	char text[TREE_TEXT];

	tree_printable(bytes_of(s->path, s->path_len), text);
	return err_set(err, ERR_INPUT, "%s%s%s: %s", s->top, s->path_len ? "/" : "", text, why);
}

static bool failed(const struct tree_source *s, struct err *err)
{
	return failed_as(s, strerror(errno), err);
}

static void put_entry(struct tree_source *s, const struct stat *st, const char *target)
{
	static const char types[16] = { [S_IFREG >> 12] = TREE_FILE,
		[S_IFDIR >> 12] = TREE_DIRECTORY,
		[S_IFLNK >> 12] = TREE_LINK,
		[S_IFIFO >> 12] = TREE_FIFO,
		[S_IFSOCK >> 12] = TREE_SOCKET,
		[S_IFCHR >> 12] = TREE_CHARACTER,
		[S_IFBLK >> 12] = TREE_BLOCK };
	bool device = S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode);
	struct tree_entry m = {
		.type = (enum tree_type)types[(st->st_mode & S_IFMT) >> 12],
		.mode = st->st_mode & 07777,
		.uid = st->st_uid == geteuid() ? 0 : st->st_uid,
		.gid = st->st_gid == getegid() ? 0 : st->st_gid,
		.mtime_s = st->st_mtim.tv_sec,
		.mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
		.size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0,
		.major = device ? major(st->st_rdev) : 0,
		.minor = device ? minor(st->st_rdev) : 0,
		.path = bytes_of(s->path, s->path_len),
		.target = bytes_str(target),
	};

	put_tree_entry(&s->out, &m);
	s->entries++;
}

/* Opens a folder to walk it later; a mount is left closed. */
static bool enter(struct tree_source *s, int dir, const char *name, struct err *err)
{
	const struct open_how how = { .flags = READ_FLAGS | O_DIRECTORY,
		.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH };
	CLEAN(fd) int fd = -1;

	if (s->depth)
		fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));
	else
		fd = openat(dir, name, READ_FLAGS | O_DIRECTORY);
	if (fd < 0)
		return (s->depth && errno == EXDEV) || failed(s, err);
	s->folders[s->depth].dir = fdopendir(fd);
	if (!s->folders[s->depth].dir)
		return failed(s, err);
	(void)fd_take(&fd);
	s->folders[s->depth++].path_len = s->path_len;
	return true;
}

static bool begin_file(
	struct tree_source *s, int dir, const char *name, struct stat *st, struct err *err)
{
	s->fd = openat(dir, name, READ_FLAGS);
	if (s->fd < 0 || fstat(s->fd, st) < 0)
		return failed(s, err);
	if (!S_ISREG(st->st_mode))
		return failed_as(s, "changed while it was opened", err);
	s->state = SOURCE_FILE;
	s->size = (uint64_t)st->st_size;
	s->at = s->island_end = 0;
	tree_hash_init(&s->hash);
	return true;
}

/* One entry; no record when it is gone meanwhile. */
static bool visit(struct tree_source *s, int dir, const char *name, struct err *err)
{
	char target[PATH_LENGTH] = "";
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return (errno == ENOENT && s->depth) || failed(s, err);
	if (S_ISREG(st.st_mode) && !begin_file(s, dir, name, &st, err))
		return false;
	if (S_ISLNK(st.st_mode) && readlinkat(dir, name, target, sizeof(target) - 1) < 0)
		return failed(s, err);
	put_entry(s, &st, target);
	return !S_ISDIR(st.st_mode) || enter(s, dir, name, err);
}

static bool end(struct tree_source *s)
{
	put_tree_end(&s->out, s->entries);
	s->state = SOURCE_ENDED;
	return true;
}

/* The next name of the innermost folder. */
static bool walk(struct tree_source *s, struct err *err)
{
	struct dirent *entry;
	size_t len, name_len;
	DIR *dir;

	if (!s->depth)
		return end(s);
	dir = s->folders[s->depth - 1].dir;
	len = s->folders[s->depth - 1].path_len;
	s->path_len = len;
	s->path[len] = '\0';
	errno = 0;
	entry = readdir(dir);
	if (!entry && errno)
		return failed(s, err);
	if (!entry) {
		(void)closedir(dir);
		s->depth--;
		return true;
	}
	if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
		return true;
	if (s->depth > TREE_DEPTH_MAX)
		return failed_as(s, "deeper than what can be copied", err);
	name_len = strlen(entry->d_name);
	if (len + 1 + name_len >= sizeof(s->path))
		return failed_as(s, "a path in it is longer than what can be copied", err);
	if (len)
		s->path[len++] = '/';
	memcpy(s->path + len, entry->d_name, name_len + 1);
	s->path_len = len + name_len;
	return visit(s, dirfd(dir), entry->d_name, err);
}

/* Finds the next bytes that are no hole; at the end when there are none. */
static void find_island(struct tree_source *s)
{
	off_t data = lseek(s->fd, (off_t)s->at, SEEK_DATA), hole;

	s->island_end = s->size;
	if (data < 0) { /* nothing but a hole, or a file system that does not know them */
		s->at = errno == ENXIO ? s->size : s->at;
		return;
	}
	s->at = (uint64_t)data < s->size ? (uint64_t)data : s->size;
	hole = lseek(s->fd, data, SEEK_HOLE);
	if (hole > data && (uint64_t)hole < s->size)
		s->island_end = (uint64_t)hole;
}

static bool read_file(struct tree_source *s, struct err *err)
{
	uint8_t sha256[SHA256_SIZE];
	struct tree_extent m;
	uint64_t left;
	ssize_t n;

	if (s->at == s->island_end && s->at < s->size)
		find_island(s);
	if (s->at == s->size) {
		tree_hash_end(&s->hash, s->size, sha256);
		put_tree_file_end(&s->out, sha256);
		fd_close(&s->fd);
		s->state = SOURCE_WALK;
		return true;
	}
	left = s->island_end - s->at;
	n = pread(s->fd, s->data, left < sizeof(s->data) ? (size_t)left : sizeof(s->data),
		(off_t)s->at);
	if (n < 0)
		return failed(s, err);
	if (!n)
		return failed_as(s, "got shorter while it was read", err);
	m = (struct tree_extent){ s->at, bytes_of(s->data, (size_t)n) };
	put_tree_extent(&s->out, &m);
	tree_hash_add(&s->hash, m.offset, m.data);
	s->at += (uint64_t)n;
	s->bytes += (uint64_t)n;
	return true;
}

struct tree_source *tree_source_new(const char *host_path, struct err *err)
{
	struct tree_source *s = xcalloc(1, sizeof(*s));
	struct stat st;

	s->fd = -1;
	s->top = xstrdup(host_path);
	if (lstat(host_path, &st) == 0)
		return s;
	(void)failed(s, err);
	tree_source_free(s);
	return NULL;
}

void tree_source_free(struct tree_source *s)
{
	if (!s)
		return;
	while (s->depth)
		(void)closedir(s->folders[--s->depth].dir);
	fd_close(&s->fd);
	free(s->top);
	free(s);
}

static bool step(struct tree_source *s, struct err *err)
{
	switch (s->state) {
	case SOURCE_NEW:
		s->state = SOURCE_WALK;
		return visit(s, AT_FDCWD, s->top, err);
	case SOURCE_WALK:
		return walk(s, err);
	case SOURCE_FILE:
		return read_file(s, err);
	case SOURCE_ENDED:
		break;
	}
	return true;
}

bool tree_source_next(struct tree_source *s, struct bytes *ret_record, struct err *err)
{
	s->out = writer_of(s->record, sizeof(s->record));
	while (s->out.at == s->record && s->state != SOURCE_ENDED)
		if (!step(s, err))
			return false;
	*ret_record = bytes_of(s->record, (size_t)(s->out.at - s->record));
	return true;
}

uint64_t tree_source_entries(const struct tree_source *s)
{
	return s->entries;
}

uint64_t tree_source_bytes(const struct tree_source *s)
{
	return s->bytes;
}
