/* SPDX-License-Identifier: Apache-2.0 */
/* Make what each record says, below one descriptor. */
#include "tree_receive.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tree_remove.h"
#include "tree_text.h"

#include "base/fd.h"
#include "base/xalloc.h"

#define TOP_NAME "tree" /* of what is made, in the passing folder */

/* What an entry is to be in the end. */
struct looks {
	uint32_t mode, uid, gid;
	struct timespec times[2];
};

struct folder {
	int fd;
	size_t path_len;
	struct looks looks;
};

struct tree_sink {
	char *target, *passing; /* passing: the folder it comes into being in */
	int passing_fd;
	bool over;	/* a regular file may be replaced */
	unsigned depth; /* folders that are open */
	struct folder folders[TREE_DEPTH_MAX + 1];
	int fd; /* of the file whose content comes, or -1 */
	struct looks looks;
	uint64_t size;	 /* of it */
	size_t path_len; /* of the last entry */
	uint8_t path[PATH_LENGTH];
	char name[TREE_NAME_MAX + 1];
	struct tree_report report;
	struct tree_reader reader;
};

/* With the text of errno. */
static bool failed(const struct tree_sink *s, struct err *err)
{
	char text[TREE_TEXT];
	int error = errno;

	tree_printable(bytes_of(s->path, s->path_len), text);
	errno = error;
	return err_errno(err, "%s%s%s", s->target, *text ? "/" : "", text);
}

static void skip(struct tree_sink *s)
{
	if (!s->report.skipped++)
		tree_printable(bytes_of(s->path, s->path_len), s->report.first_skipped);
}

static int place_dir(const struct tree_sink *s)
{
	return s->depth ? s->folders[s->depth - 1].fd : s->passing_fd;
}

/* One name in one folder: neither a link nor anything else leads out of it. */
static int open_part(int dir, const char *name, int flags, mode_t mode)
{
	const struct open_how how = { .flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };

	return (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));
}

static bool dress(int fd, const struct looks *looks)
{
	if (geteuid() == 0 && fchown(fd, looks->uid, looks->gid) < 0)
		return false;
	return fchmod(fd, looks->mode) == 0 && futimens(fd, looks->times) == 0;
}

static bool leave_folder(struct tree_sink *s, struct err *err)
{
	struct folder *f = &s->folders[s->depth - 1];
	bool ok;

	s->path_len = f->path_len;
	ok = dress(f->fd, &f->looks) || failed(s, err);
	fd_close(&f->fd);
	s->depth--;
	return ok;
}

static bool enter_folder(struct tree_sink *s, struct err *err)
{
	struct folder *f = &s->folders[s->depth];

	if (mkdirat(place_dir(s), s->name, 0700) < 0)
		return failed(s, err);
	f->fd = open_part(place_dir(s), s->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (f->fd < 0)
		return failed(s, err);
	f->path_len = s->path_len;
	f->looks = s->looks;
	s->depth++;
	return true;
}

static bool make_link(struct tree_sink *s, struct bytes target, struct err *err)
{
	char text[PATH_LENGTH];

	memcpy(text, target.data, target.len);
	text[target.len] = '\0';
	return symlinkat(text, place_dir(s), s->name) == 0 || failed(s, err);
}

static bool dress_special(struct tree_sink *s, struct err *err)
{
	if (geteuid() == 0 && fchownat(place_dir(s), s->name, s->looks.uid, s->looks.gid,
				      AT_SYMLINK_NOFOLLOW) < 0)
		return failed(s, err);
	return utimensat(place_dir(s), s->name, s->looks.times, AT_SYMLINK_NOFOLLOW) == 0 ||
	       failed(s, err);
}

static bool make(struct tree_sink *s, const struct tree_entry *m, struct err *err)
{
	switch (m->type) {
	case TREE_DIRECTORY:
		return enter_folder(s, err);
	case TREE_FILE:
		s->fd = open_part(place_dir(s), s->name, O_WRONLY | O_CREAT | O_EXCL, 0600);
		return s->fd >= 0 || failed(s, err);
	case TREE_LINK:
		return make_link(s, m->target, err) && dress_special(s, err);
	case TREE_FIFO:
		if (mkfifoat(place_dir(s), s->name, 0600) < 0 ||
			fchmodat(place_dir(s), s->name, s->looks.mode, 0) < 0)
			return failed(s, err);
		return dress_special(s, err);
	case TREE_SOCKET:
	case TREE_CHARACTER:
	case TREE_BLOCK:
		break;
	}
	return true; /* counted as skipped */
}

/* Does this host leave something of it out? */
static bool lacks(const struct tree_entry *m)
{
	if (m->type == TREE_SOCKET || m->type == TREE_CHARACTER || m->type == TREE_BLOCK)
		return true;
	return (m->mode & 06000) || (geteuid() && (m->uid != geteuid() || m->gid != getegid()));
}

static bool take_entry(struct tree_sink *s, const struct tree_entry *m, struct err *err)
{
	size_t start = m->path.len;

	while (start && m->path.data[start - 1] != '/')
		start--;
	/* The reader saw to it that the parent is one of the open folders. */
	while (m->path.len && s->depth > 1 &&
		s->folders[s->depth - 1].path_len != (start ? start - 1 : 0))
		if (!leave_folder(s, err))
			return false;
	memcpy(s->path, m->path.data, m->path.len);
	s->path_len = m->path.len;
	memcpy(s->name, m->path.data + start, m->path.len - start);
	s->name[m->path.len - start] = '\0';
	if (!m->path.len)
		memcpy(s->name, TOP_NAME, sizeof(TOP_NAME));
	s->looks = (struct looks){ m->mode & 01777, m->uid, m->gid,
		{ { m->mtime_s, (long)m->mtime_ns }, { m->mtime_s, (long)m->mtime_ns } } };
	s->size = m->size;
	if (s->reader.entries > TREE_ENTRIES_MAX)
		return err_set(err, ERR_LIMIT, "%s: the guest sends more than %llu files",
			s->target, TREE_ENTRIES_MAX);
	if (lacks(m))
		skip(s);
	return make(s, m, err);
}

static bool take_extent(struct tree_sink *s, const struct tree_extent *m, struct err *err)
{
	if (s->reader.bytes > TREE_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "%s: the guest sends more than %llu GiB", s->target,
			TREE_BYTES_MAX >> 30);
	for (size_t at = 0; at < m->data.len;) {
		ssize_t n =
			pwrite(s->fd, m->data.data + at, m->data.len - at, (off_t)(m->offset + at));

		if (n < 0)
			return failed(s, err);
		at += (size_t)n;
	}
	return true;
}

static bool end_file(struct tree_sink *s, struct err *err)
{
	if (ftruncate(s->fd, (off_t)s->size) < 0 || !dress(s->fd, &s->looks))
		return failed(s, err);
	fd_close(&s->fd);
	return true;
}

static bool take_fault(const struct tree_fault *m, struct err *err)
{
	char text[TREE_TEXT];

	tree_printable(m->path, text);
	return err_set(err, ERR_PEER, "the guest can't read %s: %s",
		*text ? text : "what was asked for",
		m->error == ENODATA ? "it got shorter meanwhile" : strerror((int)m->error));
}

static bool take_item(struct tree_sink *s, const struct tree_item *item, struct err *err)
{
	switch (item->kind) {
	case TREE_ENTRY:
		return take_entry(s, &item->entry, err);
	case TREE_EXTENT:
		return take_extent(s, &item->extent, err);
	case TREE_FILE_END:
		return end_file(s, err);
	case TREE_FAULT:
		return take_fault(&item->fault, err);
	case TREE_END:
		break;
	}
	while (s->depth > 1)
		if (!leave_folder(s, err))
			return false;
	return true;
}

bool tree_sink_take(struct tree_sink *s, struct bytes untrusted, struct err *err)
{
	struct tree_item item;

	while (untrusted.len && tree_next(&s->reader, &untrusted, &item))
		if (!take_item(s, &item, err))
			return false;
	return !s->reader.wrong ||
	       err_set(err, ERR_PEER, "the guest sends a broken tree: %s", s->reader.wrong);
}

uint64_t tree_sink_entries(const struct tree_sink *s)
{
	return s->reader.entries;
}

static bool is_regular(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool move(const struct tree_sink *s, struct err *err)
{
	struct stat st;

	if (fstatat(s->passing_fd, TOP_NAME, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, ERR_DENIED,
			"%s: it is a device or a socket, which is not made here", s->target);
	if (s->over && is_regular(s->target)) {
		if (S_ISDIR(st.st_mode))
			return err_set(err, ERR_INPUT,
				"a folder came, and %s is a file: choose another name", s->target);
		return renameat(s->passing_fd, TOP_NAME, AT_FDCWD, s->target) == 0 ||
		       err_errno(err, "%s", s->target);
	}
	/* Not every file system (NFS) can promise to replace nothing; it was looked for before. */
	return renameat2(s->passing_fd, TOP_NAME, AT_FDCWD, s->target, RENAME_NOREPLACE) == 0 ||
	       (errno == EINVAL && renameat(s->passing_fd, TOP_NAME, AT_FDCWD, s->target) == 0) ||
	       err_errno(err, "%s", s->target);
}

bool tree_sink_finish(struct tree_sink *s, struct tree_report *ret_report, struct err *err)
{
	if (!tree_complete(&s->reader))
		return err_set(err, ERR_PEER, "the guest sends a tree without an end");
	if (!move(s, err))
		return false;
	/* Only now: a folder that can't be written to can't be moved either. */
	if (s->depth && !leave_folder(s, err))
		return false;
	s->report.entries = s->reader.entries;
	s->report.bytes = s->reader.bytes;
	*ret_report = s->report;
	return true;
}

/* Makes the folder that everything comes into being in. */
static bool begin(struct tree_sink *s, struct err *err)
{
	size_t len = strlen(s->target);
	struct stat st;

	while (len > 1 && s->target[len - 1] == '/')
		s->target[--len] = '\0';
	if (lstat(s->target, &st) == 0 && !(s->over && S_ISREG(st.st_mode)))
		return err_set(err, ERR_INPUT,
			"%s: is there already; remove it or choose another name", s->target);
	while (len && s->target[len - 1] != '/')
		len--;
	s->passing = xasprintf("%.*s.part.XXXXXX", (int)len, s->target);
	if (!mkdtemp(s->passing)) {
		err_errno(err, "%s: making a folder beside it", s->target);
		free(s->passing);
		s->passing = NULL;
		return false;
	}
	s->passing_fd = open(s->passing, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return s->passing_fd >= 0 || err_errno(err, "%s", s->passing);
}

struct tree_sink *tree_sink_new(const char *host_path, bool over, struct err *err)
{
	struct tree_sink *s = xcalloc(1, sizeof(*s));

	s->fd = s->passing_fd = -1;
	s->target = xstrdup(host_path);
	s->over = over;
	tree_reader_init(&s->reader, false);
	if (begin(s, err))
		return s;
	tree_sink_free(s);
	return NULL;
}

void tree_sink_free(struct tree_sink *s)
{
	if (!s)
		return;
	while (s->depth)
		fd_close(&s->folders[--s->depth].fd);
	fd_close(&s->fd);
	if (s->passing_fd >= 0)
		tree_remove_below(s->passing_fd);
	fd_close(&s->passing_fd);
	if (s->passing)
		(void)rmdir(s->passing);
	free(s->passing);
	free(s->target);
	free(s);
}
