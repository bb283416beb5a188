/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files and folders of the host. */
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fd.h"
#include "xalloc.h"

bool file_read(const char *path, size_t max, struct buf *out, struct err *err)
{
	CLEAN(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char chunk[16384];
	struct stat st;
	size_t total = 0;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "%s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INPUT, "%s: not a regular file", path);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
		total += (size_t)n;
		if (total > max)
			return err_set(err, ERR_LIMIT, "%s: larger than %zu bytes", path, max);
		buf_add(out, chunk, (size_t)n);
	}
	return n == 0 || err_errno(err, "%s", path);
}

static bool write_as(const char *path, mode_t mode, const void *data, size_t len, struct err *err)
{
	CLEAN(str) char *beside = xasprintf("%s.new.%d", path, (int)getpid());
	CLEAN(fd) int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	if (fd < 0)
		return err_errno(err, "%s", path);
	if (!fd_write(fd, data, len, err)) {
		unlink(beside);
		return err_in(err, "%s", path);
	}
	if (rename(beside, path) < 0) {
		err_errno(err, "%s", path);
		unlink(beside);
		return false;
	}
	return true;
}

bool file_write(const char *path, const void *data, size_t len, struct err *err)
{
	return write_as(path, 0644, data, len, err);
}

bool file_write_private(const char *path, const void *data, size_t len, struct err *err)
{
	return write_as(path, 0600, data, len, err);
}

long long file_number(const char *path, const char *word)
{
	FILE *f = fopen(path, "re");
	long long n = -1;
	char line[256];

	while (f && n < 0 && fgets(line, sizeof(line), f))
		if (!strncmp(line, word, strlen(word)))
			n = strtoll(line + strlen(word), NULL, 10);
	if (f)
		(void)fclose(f);
	return n;
}

bool file_exists(const char *path)
{
	return access(path, F_OK) == 0;
}

bool file_is_missing(const char *path)
{
	return access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

char *file_nearest(const char *path)
{
	CLEAN(str) char *cut = xstrdup(path);

	while (*cut && (cut[strlen(cut) - 1] == '/' || !file_exists(cut))) {
		char *slash = strrchr(cut, '/');

		if (!slash)
			return xstrdup(".");
		*slash = 0;
	}
	return *cut ? str_take(&cut) : xstrdup("/");
}

bool dir_make(const char *path, struct err *err)
{
	CLEAN(str) char *part = xstrdup(path);

	for (char *at = part + 1; *at; at++) {
		if (*at != '/')
			continue;
		*at = 0;
		if (mkdir(part, 0777) < 0 && errno != EEXIST)
			return err_errno(err, "%s", part);
		*at = '/';
	}
	return mkdir(path, 0777) == 0 || errno == EEXIST || err_errno(err, "%s", path);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

bool dir_remove(const char *path, struct err *err)
{
	if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) < 0 && errno != ENOENT)
		return err_errno(err, "removing %s", path);
	return true;
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

bool dir_list(const char *dir, const char *file, char **ret_names, struct err *err)
{
	CLEAN(buf) struct buf names = { 0 };
	struct dirent **entries = NULL;
	int n = scandir(dir, &entries, is_visible, alphasort);

	*ret_names = NULL;
	if (n < 0)
		return errno == ENOENT || err_errno(err, "%s", dir);
	for (int i = 0; i < n; i++) {
		CLEAN(str) char *path = xasprintf("%s/%s/%s", dir, entries[i]->d_name, file);

		if (!file_is_missing(path))
			buf_printf(&names, "%s%s", names.len ? ", " : "", entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	*ret_names = names.len ? buf_take(&names) : NULL;
	return true;
}

static const char *nonempty_env(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

char *home_path(const char *below)
{
	const char *home = nonempty_env("POSTERN_HOME");
	const char *data = nonempty_env("XDG_DATA_HOME");
	const char *user = nonempty_env("HOME");

	if (home)
		return xasprintf("%s/%s", home, below);
	if (data)
		return xasprintf("%s/postern/%s", data, below);
	return xasprintf("%s/.local/share/postern/%s", user ? user : "", below);
}

char *list_next(char **rest)
{
	char *name;

	do
		name = strsep(rest, ", ");
	while (name && !*name);
	return name;
}
