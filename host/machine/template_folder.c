/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of one template. */
#include "template_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/xalloc.h"

#define MANIFEST_MAX (1 << 20)
#define MANIFEST     "template.json"
#define RETRY_MS     100
#define TELL_MS	     2000
#define WAIT_MINUTES 15 /* longer than a template takes to make, emulated */

const char *const folder_kinds[FOLDER_KINDS] = { "memory", "state", "qcow2" };

char *folder_title(const char *name)
{
	size_t prefix = strlen(FOLDER_SCENARIO);

	if (!strncmp(name, FOLDER_SCENARIO, prefix))
		return xasprintf("scenario %s", name + prefix);
	return xasprintf("image %s", name);
}

struct folder *folder_open(const char *name, struct err *err)
{
	CLEAN(str) char *below = xasprintf("templates/%s", name);
	CLEAN(folder) struct folder *f = xcalloc(1, sizeof(*f));
	CLEAN(str) char *all = home_path("templates");
	CLEAN(str) char *lock = NULL;
	struct folder *out;

	*f = (struct folder){ .title = folder_title(name), .path = home_path(below), .lock = -1 };
	lock = xasprintf("%s/lock", f->path);
	/* What it holds is the memory of a machine: its owner's alone. */
	if (!dir_make(all, err))
		return NULL;
	if (mkdir(f->path, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "%s", f->path), NULL;
	f->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (f->lock < 0)
		return err_errno(err, "%s", lock), NULL;
	out = f;
	f = NULL;
	return out;
}

struct folder *folder_at(const char *path)
{
	struct folder *f = xcalloc(1, sizeof(*f));

	*f = (struct folder){ .title = xstrdup(path), .path = xstrdup(path), .lock = -1 };
	return f;
}

void folder_free(struct folder *f)
{
	if (!f)
		return;
	fd_close(&f->lock);
	free(f->title);
	free(f->path);
	free(f);
}

struct wait {
	int fd, how;
};

static bool locked(const void *arg)
{
	const struct wait *w = arg;

	return flock(w->fd, w->how | LOCK_NB) == 0;
}

bool folder_lock(struct loop *loop, const struct folder *f, int how, template_notice *notice,
	void *self, struct err *err)
{
	const struct wait w = { f->lock, how };
	int64_t tell = clock_in(TELL_MS), end = clock_in((int64_t)WAIT_MINUTES * 60000);

	while (!locked(&w)) {
		if (!loop_until(loop, locked, &w, clock_in(RETRY_MS), err) && err->code != ERR_TIME)
			return false;
		if (clock_ms() > end)
			return err_set(err, ERR_TIME,
				"another postern has been busy with the template of %s for "
				"%d minutes",
				f->title, WAIT_MINUTES);
		if (notice && clock_ms() > tell) {
			CLEAN(str)
			char *text = xasprintf(
				"waiting for another postern that makes the template of %s",
				f->title);

			notice(self, text);
			tell = end;
		}
	}
	return true;
}

char *folder_file(const struct folder *f, const char *id, const char *kind)
{
	return xasprintf("%s/%s.%s", f->path, id, kind);
}

struct json *folder_manifest(const struct folder *f)
{
	CLEAN(str) char *file = xasprintf("%s/" MANIFEST, f->path);
	struct err err;

	return json_parse_file(file, MANIFEST_MAX, &err);
}

bool folder_has_manifest(const struct folder *f)
{
	CLEAN(str) char *file = xasprintf("%s/" MANIFEST, f->path);

	return file_exists(file);
}

bool folder_write_manifest(const struct folder *f, const struct json *manifest, struct err *err)
{
	CLEAN(str) char *file = xasprintf("%s/" MANIFEST, f->path);
	CLEAN(str) char *text = json_pretty(manifest);

	return file_write_private(file, text, strlen(text), err);
}

void folder_drop_manifest(const struct folder *f)
{
	CLEAN(str) char *file = xasprintf("%s/" MANIFEST, f->path);

	(void)unlink(file);
}

static bool has_id(const char *name, const char *id)
{
	size_t len = id ? strlen(id) : 0;

	return len && !strncmp(name, id, len) && name[len] == '.';
}

/* Records of trials may stand on it. */
static bool is_disk(const char *name)
{
	const char *kind = strrchr(name, '.');

	return kind && !strcmp(kind, ".qcow2") && !has_id(name, "new");
}

static bool is_old_overlay(const char *name, const char *id)
{
	return is_disk(name) && !has_id(name, id);
}

typedef bool visit(void *self, const char *path, const char *name, struct err *err);

/* Goes on after a visit that failed; false if one did. */
static bool each_file(const struct folder *f, visit *take, void *self, struct err *err)
{
	DIR *dir = opendir(f->path);
	struct dirent *entry;
	bool ok = true;

	if (!dir)
		return err_errno(err, "%s", f->path);
	while ((entry = readdir(dir))) {
		CLEAN(str) char *path = xasprintf("%s/%s", f->path, entry->d_name);

		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
			strcmp(entry->d_name, "lock") != 0)
			ok = take(self, path, entry->d_name, err) && ok;
	}
	closedir(dir);
	return ok;
}

static bool sweep_one(void *self, const char *path, const char *name, struct err *err)
{
	const char *const *id = self;

	(void)err;
	if (strcmp(name, MANIFEST) != 0 && !has_id(name, *id) && !is_old_overlay(name, *id))
		(void)unlink(path);
	return true;
}

void folder_sweep(const struct folder *f, const char *id)
{
	struct err ignored;

	(void)each_file(f, sweep_one, &id, &ignored);
}

struct measure {
	const char *id;
	struct folder_use use;
};

static bool measure_one(void *self, const char *path, const char *name, struct err *err)
{
	struct measure *m = self;
	struct stat st;

	/* Another process may just have removed it. */
	if (stat(path, &st) < 0)
		return errno == ENOENT || err_errno(err, "%s", path);
	m->use.files++;
	m->use.bytes += st.st_blocks * 512;
	m->use.disks += is_disk(name);
	m->use.old_overlays += is_old_overlay(name, m->id);
	return true;
}

bool folder_measure(
	const struct folder *f, const char *id, struct folder_use *ret_use, struct err *err)
{
	struct measure m = { .id = id };
	bool ok = each_file(f, measure_one, &m, err);

	*ret_use = m.use;
	return ok;
}

static bool remove_one(void *self, const char *path, const char *name, struct err *err)
{
	(void)self;
	(void)name;
	return unlink(path) == 0 || err_errno(err, "removing %s", path);
}

bool folder_empty(const struct folder *f, struct err *err)
{
	/* The first to go is what makes it a template. */
	folder_drop_manifest(f);
	return each_file(f, remove_one, NULL, err);
}
