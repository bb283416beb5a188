/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file or folder of the guest as a tree stream.
 *
 * How it works. Folders are walked depth first with one descriptor per level, each name looked up
 * in the descriptor of its folder, so nothing that is renamed or linked meanwhile leads elsewhere.
 * What can't be read becomes a fault and the walk goes on; false in here means that the stream
 * itself can't be written any more.
 */
#include "transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "beneath.h"
#include "kernfs.h"
#include "transfer_text.h"
#include "transfer_xattr.h"
#include "treestream.h"

#define RECORD_MAX (TREE_HEADER + TREE_BODY_MAX)
#define HOLES_MAX  (4ULL << 30) /* bytes of holes that are hashed as zeros */
#define READ_FLAGS (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

struct sender {
	int fd;
	bool manifest;
	const char *top;
	struct transfer_result *result;
	size_t path_len, held;
	uint8_t path[PATH_LENGTH]; /* below top */
	uint8_t data[TREE_EXTENT_MAX];
	uint8_t xattrs[TREE_XATTR_MAX];
	uint8_t out[2 * RECORD_MAX];
};

/* What is sent, and where it is found. */
struct item {
	int dir;
	const char *name;
	unsigned depth;
	struct stat stat;
};

static bool flush(struct sender *s)
{
	size_t at = 0;

	while (at < s->held) {
		ssize_t n = write(s->fd, s->out + at, s->held - at);

		if (n >= 0)
			at += (size_t)n;
		else if (errno != EINTR)
			return transfer_fail(
				s->result, errno, s->top, bytes_of("", 0), "its receiver is gone");
	}
	s->result->bytes += s->held;
	s->held = 0;
	return true;
}

/* Room for one record. */
static bool begin(struct sender *s, struct writer *ret_w)
{
	if (sizeof(s->out) - s->held < RECORD_MAX && !flush(s))
		return false;
	*ret_w = writer_of(s->out + s->held, sizeof(s->out) - s->held);
	return true;
}

static bool end(struct sender *s, const struct writer *w)
{
	s->held = (size_t)(w->at - s->out);
	return true;
}

static bool send_fault(struct sender *s, int error)
{
	const struct tree_fault m = { (uint32_t)error, bytes_of(s->path, s->path_len) };
	struct writer w;

	if (!begin(s, &w))
		return false;
	put_tree_fault(&w, &m);
	return end(s, &w);
}

static bool send_extent(struct sender *s, uint64_t offset, size_t len)
{
	const struct tree_extent m = { offset, bytes_of(s->data, len) };
	struct writer w;

	if (s->manifest)
		return true;
	if (!begin(s, &w))
		return false;
	put_tree_extent(&w, &m);
	return end(s, &w);
}

static bool send_entry(struct sender *s, const struct item *it, uint64_t size, const char *target)
{
	static const char types[16] = { [S_IFREG >> 12] = TREE_FILE,
		[S_IFDIR >> 12] = TREE_DIRECTORY,
		[S_IFLNK >> 12] = TREE_LINK,
		[S_IFIFO >> 12] = TREE_FIFO,
		[S_IFSOCK >> 12] = TREE_SOCKET,
		[S_IFCHR >> 12] = TREE_CHARACTER,
		[S_IFBLK >> 12] = TREE_BLOCK };
	const struct stat *st = &it->stat;
	bool device = S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode);
	struct tree_entry m = {
		.type = (enum tree_type)types[(st->st_mode & S_IFMT) >> 12],
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.mtime_s = st->st_mtim.tv_sec,
		.mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
		.size = size,
		.major = device ? major(st->st_rdev) : 0,
		.minor = device ? minor(st->st_rdev) : 0,
		.path = bytes_of(s->path, s->path_len),
		.target = bytes_str(target),
	};
	struct writer w;

	if (s->manifest) {
		int error = transfer_xattrs(it->dir, it->name, s->xattrs, &m.xattrs);

		if (error && !send_fault(s, error))
			return false;
	}
	if (!begin(s, &w))
		return false;
	put_tree_entry(&w, &m);
	s->result->entries++;
	return end(s, &w);
}

/* One descriptor, its hash, and how far it is sent. */
struct content {
	int fd;
	uint64_t size, holes;
	struct tree_hash hash;
};

static void hash_hole(struct sender *s, struct content *c, uint64_t to)
{
	if (!s->manifest || c->hash.at == to)
		return;
	c->holes += to - c->hash.at;
	memset(s->data, 0, sizeof(s->data));
	while (c->holes <= HOLES_MAX && c->hash.at < to) {
		uint64_t n = to - c->hash.at;

		tree_hash_add(&c->hash, c->hash.at,
			bytes_of(s->data, n < sizeof(s->data) ? (size_t)n : sizeof(s->data)));
	}
}

/* Sends what is between two holes. False with errno: it can't be read; 0: the receiver is gone. */
static bool send_island(struct sender *s, struct content *c, uint64_t at, uint64_t to)
{
	hash_hole(s, c, at);
	while (at < to) {
		size_t want = to - at < sizeof(s->data) ? (size_t)(to - at) : sizeof(s->data);
		ssize_t n = pread(c->fd, s->data, want, (off_t)at);

		if (n <= 0) {
			errno = n ? errno : ENODATA;
			return false;
		}
		tree_hash_add(&c->hash, at, bytes_of(s->data, (size_t)n));
		if (!send_extent(s, at, (size_t)n)) {
			errno = 0;
			return false;
		}
		at += (uint64_t)n;
	}
	return true;
}

static bool send_islands(struct sender *s, struct content *c)
{
	uint64_t at = 0;

	while (at < c->size) {
		off_t data = lseek(c->fd, (off_t)at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break;
		if (data < 0) /* not a file system that knows holes */
			return send_island(s, c, at, c->size);
		if ((uint64_t)data >= c->size)
			break;
		hole = lseek(c->fd, data, SEEK_HOLE);
		at = hole < data || (uint64_t)hole > c->size ? c->size : (uint64_t)hole;
		if (!send_island(s, c, (uint64_t)data, at))
			return false;
	}
	hash_hole(s, c, c->size);
	return true;
}

/*
 * A small file without holes is read before its size is said: those of /proc and /sys don't know
 * theirs. Says how much is in s->data.
 */
static ssize_t read_small(struct sender *s, struct content *c)
{
	off_t hole = lseek(c->fd, 0, SEEK_HOLE);
	size_t len = 0;
	ssize_t n;

	if (c->size > sizeof(s->data) || (hole >= 0 && (uint64_t)hole < c->size))
		return 0;
	while (len < sizeof(s->data) &&
		(n = pread(c->fd, s->data + len, sizeof(s->data) - len, (off_t)len)) != 0) {
		if (n < 0)
			return -1;
		len += (size_t)n;
	}
	if (len == sizeof(s->data) && !c->size) {
		errno = EFBIG; /* more than it says, and nobody knows how much */
		return -1;
	}
	if (len < sizeof(s->data))
		c->size = len;
	return (ssize_t)c->size;
}

static bool send_content(struct sender *s, struct content *c, ssize_t small)
{
	uint8_t sha256[SHA256_SIZE];
	struct writer w;
	bool ok = small >= 0;

	if (small > 0 && (uint64_t)small == c->size) {
		tree_hash_add(&c->hash, 0, bytes_of(s->data, (size_t)small));
		if (!send_extent(s, 0, (size_t)small))
			return false;
	} else if (ok) {
		ok = send_islands(s, c);
	}
	if (!ok)
		return errno && send_fault(s, errno);
	if (c->holes > HOLES_MAX)
		return send_fault(s, EFBIG);
	tree_hash_end(&c->hash, c->size, sha256);
	if (!begin(s, &w))
		return false;
	put_tree_file_end(&w, sha256);
	return end(s, &w);
}

static bool send_file(struct sender *s, const struct item *it)
{
	struct content c = { .fd = openat(it->dir, it->name, READ_FLAGS) };
	int error = c.fd < 0 ? errno : 0;
	ssize_t small = -1;
	struct stat st;
	bool ok;

	if (error == ENOENT)
		return true;
	if (!error && (fstat(c.fd, &st) < 0 || !S_ISREG(st.st_mode)))
		error = ESTALE;
	c.size = error ? (uint64_t)it->stat.st_size : (uint64_t)st.st_size;
	tree_hash_init(&c.hash);
	if (!error && (small = read_small(s, &c)) < 0)
		error = errno;
	ok = send_entry(s, it, c.size, "");
	errno = error;
	ok = ok && send_content(s, &c, error ? -1 : small);
	if (c.fd >= 0)
		close(c.fd);
	return ok;
}

static bool send_link(struct sender *s, const struct item *it)
{
	char target[PATH_LENGTH];
	ssize_t n = readlinkat(it->dir, it->name, target, sizeof(target) - 1);

	if (n <= 0)
		return send_fault(s, n ? errno : ENOENT);
	target[n] = '\0';
	return send_entry(s, it, 0, target);
}

static bool send_item(struct sender *s, struct item *it);

/* NULL with errno 0 is the end. */
static const char *next_name(struct listing *list)
{
	errno = 0;
	return listing_next(list);
}

static bool send_names(struct sender *s, int dir, unsigned depth)
{
	struct listing list = { .fd = dir };
	size_t len = s->path_len;
	struct item it = { .dir = dir, .depth = depth + 1 };
	bool ok = true;

	while (ok && (it.name = next_name(&list))) {
		size_t name_len = strlen(it.name);

		if (it.depth > TREE_DEPTH_MAX || len + 1 + name_len >= sizeof(s->path))
			return send_fault(s, ENAMETOOLONG);
		if (len)
			s->path[len] = '/';
		s->path_len = len + (len > 0);
		memcpy(s->path + s->path_len, it.name, name_len);
		s->path_len += name_len;
		ok = send_item(s, &it);
		s->path_len = len;
	}
	return ok && (!errno || send_fault(s, errno));
}

static bool send_folder(struct sender *s, const struct item *it)
{
	int dir, error;
	bool ok;

	if (it->depth)
		dir = beneath_open(it->dir, it->name, READ_FLAGS | O_DIRECTORY, BENEATH_NO_MOUNTS);
	else
		dir = openat(it->dir, it->name, READ_FLAGS | O_DIRECTORY);
	error = dir < 0 ? errno : 0;
	if (error == ENOENT)
		return true;
	ok = send_entry(s, it, 0, "");
	if (ok && dir >= 0)
		ok = send_names(s, dir, it->depth);
	else if (ok && error != EXDEV)
		ok = send_fault(s, error);
	if (dir >= 0)
		close(dir);
	return ok;
}

static bool send_item(struct sender *s, struct item *it)
{
	if (fstatat(it->dir, it->name, &it->stat, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT || send_fault(s, errno); /* gone: it need not be there */
	if (S_ISREG(it->stat.st_mode))
		return send_file(s, it);
	if (S_ISDIR(it->stat.st_mode))
		return send_folder(s, it);
	if (S_ISLNK(it->stat.st_mode))
		return send_link(s, it);
	return send_entry(s, it, 0, "");
}

bool transfer_send(int fd, const char *path, bool manifest, struct transfer_result *ret_result)
{
	struct sender s = { .fd = fd, .manifest = manifest, .top = path, .result = ret_result };
	struct item it = { .dir = AT_FDCWD, .name = path };
	struct writer w;

	*ret_result = (struct transfer_result){ 0 };
	(void)signal(SIGPIPE, SIG_IGN);
	if (fstatat(AT_FDCWD, path, &it.stat, AT_SYMLINK_NOFOLLOW) < 0)
		return transfer_fail(ret_result, errno, path, bytes_of("", 0), NULL);
	if (!send_item(&s, &it) || !begin(&s, &w))
		return false;
	if (!ret_result->entries)
		return transfer_fail(ret_result, ESTALE, path, bytes_of("", 0), NULL);
	put_tree_end(&w, ret_result->entries);
	return end(&s, &w) && flush(&s);
}
