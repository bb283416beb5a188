/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of one machine. */
#include "place.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/xalloc.h"

#define NAME_MAX_BYTES 63
#define JSON_MAX       65536
#define BACKLOG	       64

bool place_check_name(const char *name, struct err *err)
{
	static const char rest[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t len = strspn(name, rest);

	if (len && !name[len] && len <= NAME_MAX_BYTES && (isalnum((unsigned char)*name)))
		return true;
	return err_set(err, ERR_INPUT,
		"'%.80s' is no name for a machine: it has up to %d of a-z, 0-9, '.', '_' and '-', "
		"the first a letter or a digit",
		name, NAME_MAX_BYTES);
}

static bool is_unnamed(const char *name)
{
	static const char rest[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

	return *name == '.' && name[1] && strcmp(name, "..") != 0 && !name[strspn(name, rest)];
}

bool place_check_any_name(const char *name, struct err *err)
{
	return is_unnamed(name) || place_check_name(name, err);
}

char *place_file(const char *name, const char *file)
{
	CLEAN(str) char *below = xasprintf("machines/%s%s%s", name, *file ? "/" : "", file);

	return home_path(below);
}

/* Nobody makes or removes folders until the descriptor is closed. -1 on failure. */
static int hold_all(struct err *err)
{
	CLEAN(str) char *parent = home_path("machines");
	int fd;

	if (!dir_make(parent, err))
		return -1;
	fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (fd >= 0 && flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			fd_close(&fd);
	if (fd < 0)
		err_errno(err, "%s", parent);
	return fd;
}

/* A lock that belongs to the open file, so that a child of ours keeps it. */
static struct flock whole_file(void)
{
	return (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET };
}

static bool take_lock(struct place *p, struct err *err)
{
	CLEAN(str) char *lock = xasprintf("%s/lock", p->path);
	struct flock all = whole_file();

	p->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	p->dir = open(p->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (p->lock < 0 || p->dir < 0 || fcntl(p->lock, F_OFD_SETLK, &all) < 0)
		return err_errno(err, "%s", lock);
	return true;
}

static bool refuse(const char *path, struct err *err)
{
	err_errno(err, "%s (point POSTERN_HOME to a folder that you may write to)", path);
	return false;
}

bool place_make(const char *name, struct place *ret_place, struct err *err)
{
	struct place p = { .name = xstrdup(name), .path = place_file(name, "") };
	CLEAN(fd) int held = hold_all(err);
	bool ok = held >= 0;

	if (ok && mkdir(p.path, 0700) < 0)
		ok = errno == EEXIST
			     ? err_set(err, ERR_DENIED, "there is a machine %s already", name)
			     : refuse(p.path, err);
	ok = ok && take_lock(&p, err);
	if (ok)
		*ret_place = p;
	else
		place_release(&p);
	return ok;
}

bool place_make_unnamed(const char *who, struct place *ret_place, struct err *err)
{
	CLEAN(str) char *pattern = xasprintf(".%s.XXXXXX", who);
	struct place p = { .path = place_file(pattern, "") };
	CLEAN(fd) int held = hold_all(err);
	bool ok = held >= 0;

	if (ok && !mkdtemp(p.path))
		ok = refuse(p.path, err);
	p.name = xstrdup(strrchr(p.path, '/') + 1);
	ok = ok && take_lock(&p, err);
	if (ok)
		*ret_place = p;
	else
		place_release(&p);
	return ok;
}

void place_release(struct place *p)
{
	if (p->lock > 0)
		close(p->lock);
	if (p->dir > 0)
		close(p->dir);
	free(p->name);
	free(p->path);
	*p = (struct place){ 0 };
}

bool place_remove(struct place *p, struct err *err)
{
	CLEAN(fd) int held = p->path ? hold_all(err) : -1;
	bool ok = !p->path || (held >= 0 && dir_remove(p->path, err));

	place_release(p);
	return ok;
}

/* Is the lock of this folder held? Where that can't be told it may be, and the folder is not to be
 * removed. */
static bool is_kept(const char *name)
{
	CLEAN(str) char *lock = place_file(name, "lock");
	CLEAN(fd) int fd = open(lock, O_RDONLY | O_CLOEXEC);
	struct flock all = whole_file();

	if (fd < 0)
		return errno != ENOENT;
	return fcntl(fd, F_OFD_GETLK, &all) < 0 || all.l_type != F_UNLCK;
}

/* Not a file, nor a link. */
static bool is_folder(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static enum place_state look(const char *name)
{
	CLEAN(str) char *path = place_file(name, "");
	CLEAN(str) char *ended = place_file(name, "ended.json");

	if (!is_folder(path))
		return PLACE_NONE;
	if (is_kept(name))
		return PLACE_KEPT;
	return file_exists(ended) ? PLACE_ENDED : PLACE_LEFT;
}

enum place_state place_look(const char *name)
{
	CLEAN(str) char *path = place_file(name, "");
	enum place_state state;
	struct err err;
	int held;

	if (!is_folder(path))
		return PLACE_NONE;
	/* Without the lock one that is being made may be seen unkept, which is told and no more. */
	held = hold_all(&err);
	state = look(name);
	fd_close(&held);
	return state;
}

bool place_clear(const char *name, struct err *err)
{
	CLEAN(str) char *path = place_file(name, "");
	CLEAN(fd) int held = -1;

	if (!place_check_any_name(name, err))
		return false;
	held = hold_all(err);
	if (held < 0)
		return false;
	switch (look(name)) {
	case PLACE_NONE:
		return true;
	case PLACE_KEPT:
		return err_set(err, ERR_DENIED, "the machine %s is in use", name);
	default:
		return dir_remove(path, err);
	}
}

static int may_be_machine(const struct dirent *entry)
{
	struct err err;

	return (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) &&
	       place_check_any_name(entry->d_name, &err);
}

char *place_names(void)
{
	CLEAN(str) char *parent = home_path("machines");
	CLEAN(buf) struct buf names = { 0 };
	struct dirent **entries = NULL;
	int n = scandir(parent, &entries, may_be_machine, alphasort);

	for (int i = 0; i < n; i++) {
		buf_printf(&names, "%s%s", names.len ? " " : "", entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return names.len ? buf_take(&names) : xstrdup("");
}

struct json *place_json(const char *name, const char *file)
{
	CLEAN(str) char *path = place_file(name, file);
	struct err err;

	return json_parse_file(path, JSON_MAX, &err);
}

bool place_write_json(
	const struct place *p, const char *file, const struct json *j, struct err *err)
{
	CLEAN(str) char *path = xasprintf("%s/%s", p->path, file);
	CLEAN(str) char *text = json_pretty(j);

	return file_write(path, text, strlen(text), err);
}

/* The folder may lie deeper than an address has room for, so it is named by its descriptor. */
static struct sockaddr_un address_of(int dir, const char *file)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s", dir, file);
	return a;
}

int place_listen(const struct place *p, const char *file, struct err *err)
{
	struct sockaddr_un a = address_of(p->dir, file);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 ||
		listen(fd, BACKLOG) < 0) {
		err_errno(err, "%s/%s", p->path, file);
		fd_close(&fd);
	}
	return fd;
}

int place_connect(const char *name, const char *file, struct err *err)
{
	CLEAN(str) char *path = place_file(name, "");
	CLEAN(fd) int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct sockaddr_un a = address_of(dir, file);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (dir < 0 || fd < 0 || connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0) {
		err_errno(err, "the machine %s can't be reached", name);
		fd_close(&fd);
	}
	return fd;
}
