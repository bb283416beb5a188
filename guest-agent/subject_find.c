/* SPDX-License-Identifier: Apache-2.0 */
/* Walk down with one descriptor per level; what can't be read is said and the walk goes on. */
#include "subject_find.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "beneath.h"
#include "kernfs.h"
#include "treestream.h"

struct find {
	struct out *out;
	size_t len;
	char path[PATH_LENGTH];
};

static void print(struct find *f)
{
	out_name(f->out, f->path);
	out_text(f->out, "\n");
}

static bool walk(struct find *f, int dir, unsigned depth);

/* One name in dir, which f->path ends in. */
static bool visit(struct find *f, int dir, const char *name, unsigned depth)
{
	int fd = beneath_open(
		dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, BENEATH_NO_MOUNTS);
	bool ok;

	if (fd < 0)
		return errno == ENOTDIR || errno == ELOOP || errno == EXDEV ||
		       subject_failed(f->path, NULL);
	ok = depth < TREE_DEPTH_MAX ? walk(f, fd, depth)
				    : subject_failed(f->path, "too deep to look into");
	close(fd);
	return ok;
}

static bool walk(struct find *f, int dir, unsigned depth)
{
	struct listing list = { .fd = dir };
	size_t len = f->len;
	const char *name;
	bool ok = true;

	while (errno = 0, (name = listing_next(&list)) && !f->out->broken) {
		size_t slash = !len || f->path[len - 1] != '/', n = strlen(name);

		if (len + slash + n >= sizeof(f->path)) {
			ok = subject_failed(f->path, "a path in it is too long");
			continue;
		}
		f->path[len] = '/';
		memcpy(f->path + len + slash, name, n + 1);
		f->len = len + slash + n;
		print(f);
		ok = visit(f, dir, name, depth + 1) && ok;
		f->path[len] = '\0';
		f->len = len;
	}
	return errno ? subject_failed(f->path, NULL) : ok;
}

bool subject_find(struct out *out, int dir, const char *path)
{
	struct find f = { .out = out, .len = strlen(path) };

	memcpy(f.path, path, f.len + 1);
	print(&f);
	return dir < 0 || walk(&f, dir, 0);
}
