/* SPDX-License-Identifier: Apache-2.0 */
/* The applets, and how a path finds its file. */
#include "subject.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "beneath.h"
#include "sha256.h"
#include "subject_find.h"
#include "subject_out.h"
#include "treestream.h"

#define SUBJECT_ROOT "/subject"
#define NAME	     "subject"
#define XATTR_MAX    65536 /* what Linux allows, for all names and for one value */

struct subject {
	const char *path;
	int root, fd; /* fd: a place, not open for reading */
	struct stat stat;
	struct out out;
};

/* -1 with errno. */
static int resolve(const struct subject *s, int flags)
{
	return beneath_open(s->root, s->path, flags | O_CLOEXEC, BENEATH_AS_ROOT);
}

/* Only now is it opened, when it is known to be nothing that opening would do something to. */
static int open_to_read(const struct subject *s, mode_t type, const char *refusal)
{
	struct stat st;
	int fd;

	if ((s->stat.st_mode & S_IFMT) != type)
		return subject_failed(s->path, refusal), -1;
	fd = resolve(s, O_RDONLY | O_NONBLOCK | O_NOCTTY | (type == S_IFDIR ? O_DIRECTORY : 0));
	if (fd < 0)
		return subject_failed(s->path, NULL), -1;
	if (fstat(fd, &st) < 0 || st.st_ino != s->stat.st_ino || st.st_dev != s->stat.st_dev) {
		close(fd);
		return subject_failed(s->path, "changed while it was opened"), -1;
	}
	return fd;
}

/* The file's bytes to take. */
static bool read_file(struct subject *s, void (*take)(void *self, struct bytes b), void *self)
{
	int fd = open_to_read(s, S_IFREG, "not a regular file");
	uint8_t buf[TREE_EXTENT_MAX];
	ssize_t n;

	if (fd < 0)
		return false;
	while ((n = read(fd, buf, sizeof(buf))) > 0 && !s->out.broken)
		take(self, bytes_of(buf, (size_t)n));
	if (n < 0)
		(void)subject_failed(s->path, NULL);
	close(fd);
	return n >= 0;
}

static void to_out(void *self, struct bytes b)
{
	out_raw(self, b);
}

static bool cat(struct subject *s)
{
	return read_file(s, to_out, &s->out);
}

static void to_hash(void *self, struct bytes b)
{
	sha256_add(self, b.data, b.len);
}

static bool hash(struct subject *s)
{
	uint8_t digest[SHA256_SIZE];
	struct sha256 sha256;

	sha256_init(&sha256);
	if (!read_file(s, to_hash, &sha256))
		return false;
	sha256_end(&sha256, digest);
	out_hex(&s->out, bytes_of(digest, sizeof(digest)));
	out_text(&s->out, "  ");
	out_name(&s->out, s->path);
	out_text(&s->out, "\n");
	return true;
}

static void print_time(struct out *out, int64_t seconds)
{
	if (seconds < 0)
		out_text(out, "-");
	out_number(out, seconds < 0 ? 0 - (uint64_t)seconds : (uint64_t)seconds, 10);
}

static bool stat_line(struct subject *s)
{
	static const char types[] = "?pc?d?b?f?l?s???";
	const struct stat *st = &s->stat;
	char target[PATH_LENGTH] = "";

	out_raw(&s->out, bytes_of(&types[(st->st_mode & S_IFMT) >> 12], 1));
	out_text(&s->out, " ");
	out_number(&s->out, st->st_mode & 07777, 8);
	out_text(&s->out, " ");
	out_number(&s->out, st->st_uid, 10);
	out_text(&s->out, " ");
	out_number(&s->out, st->st_gid, 10);
	out_text(&s->out, " ");
	out_number(&s->out, (uint64_t)st->st_size, 10);
	out_text(&s->out, " ");
	print_time(&s->out, st->st_mtim.tv_sec);
	out_text(&s->out, " ");
	out_name(&s->out, s->path);
	if (S_ISLNK(st->st_mode)) {
		if (readlinkat(s->fd, "", target, sizeof(target) - 1) < 0)
			return subject_failed(s->path, NULL);
		out_text(&s->out, " -> ");
		out_name(&s->out, target);
	}
	out_text(&s->out, "\n");
	return true;
}

static bool find(struct subject *s)
{
	int dir = -1;
	bool ok;

	if (S_ISDIR(s->stat.st_mode)) {
		dir = open_to_read(s, S_IFDIR, "");
		if (dir < 0)
			return false;
	}
	ok = subject_find(&s->out, dir, s->path);
	if (dir >= 0)
		close(dir);
	return ok;
}

static bool print_xattrs(struct subject *s, int fd)
{
	char names[XATTR_MAX];
	uint8_t value[XATTR_MAX];
	ssize_t len = flistxattr(fd, names, sizeof(names)), n;

	if (len < 0)
		return errno == EOPNOTSUPP || subject_failed(s->path, NULL);
	for (const char *name = names; name < names + len; name += strlen(name) + 1) {
		n = fgetxattr(fd, name, value, sizeof(value));
		if (n < 0)
			return subject_failed(s->path, NULL);
		out_name(&s->out, name);
		out_text(&s->out, "=");
		out_hex(&s->out, bytes_of(value, (size_t)n));
		out_text(&s->out, "\n");
	}
	return true;
}

static bool getfattr(struct subject *s)
{
	mode_t type = S_ISDIR(s->stat.st_mode) ? S_IFDIR : S_IFREG;
	int fd = open_to_read(s, type, "neither a regular file nor a folder");
	bool ok;

	if (fd < 0)
		return false;
	ok = print_xattrs(s, fd);
	close(fd);
	return ok;
}

static const struct {
	const char *name;
	int flags;
	bool (*run)(struct subject *s);
} applets[] = {
	{ "cat", 0, cat },
	{ "stat", 0, stat_line },
	{ "lstat", O_NOFOLLOW, stat_line },
	{ "hash", 0, hash },
	{ "find", 0, find },
	{ "getfattr", 0, getfattr },
};

static bool run(struct subject *s, unsigned which)
{
	bool ok;

	s->root = open(SUBJECT_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s->root < 0)
		return subject_failed(SUBJECT_ROOT, "not there: mount the disk at this place");
	s->fd = resolve(s, O_PATH | applets[which].flags);
	if (s->fd < 0 || fstat(s->fd, &s->stat) < 0)
		return subject_failed(s->path, NULL);
	ok = applets[which].run(s);
	if (!out_flush(&s->out))
		return subject_failed("standard output", NULL);
	return ok;
}

bool subject_is(const char *program)
{
	size_t len = program ? strlen(program) : 0, n = strlen(NAME);

	return len >= n && !strcmp(program + len - n, NAME) &&
	       (len == n || program[len - n - 1] == '/');
}

int subject_main(int argc, char **argv)
{
	static const char usage[] = "usage: subject cat|stat|lstat|hash|find|getfattr PATH    PATH "
				    "is one of " SUBJECT_ROOT "\n";
	struct subject s = { .root = -1, .fd = -1 };

	for (unsigned i = 0; argc == 3 && i < sizeof(applets) / sizeof(*applets); i++) {
		if (strcmp(argv[1], applets[i].name) != 0)
			continue;
		s.path = argv[2];
		if (!*s.path || strlen(s.path) >= PATH_LENGTH)
			return subject_failed(s.path, "not a path that can be"), 1;
		return run(&s, i) ? 0 : 1;
	}
	(void)!write(2, usage, sizeof(usage) - 1);
	return 2;
}
