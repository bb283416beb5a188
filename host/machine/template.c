/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: opening, making, cloning. */
#include "template.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "template_key.h"
#include "template_make.h"

#define MANIFEST_MAX (1 << 20)
#define STATE_MAX    (64 << 20)
#define RETRY_MS     100

/* The folder of one image's template, held by a lock. */
struct folder {
	char *path;
	int lock;
};

static void folder_clean(struct folder *f)
{
	fd_close(&f->lock);
	free(f->path);
}

static bool locked(const void *arg)
{
	const struct folder *f = arg;

	return flock(f->lock, LOCK_EX | LOCK_NB) == 0;
}

/* Another process that makes it may take as long as a boot does. */
static bool wait_for_lock(struct loop *loop, const struct folder *f, struct err *err)
{
	while (!locked(f))
		if (!loop_until(loop, locked, f, clock_in(RETRY_MS), err) && err->code != ERR_TIME)
			return false;
	return true;
}

static bool folder_open(
	struct loop *loop, const struct image *image, struct folder *ret_folder, struct err *err)
{
	CLEAN(str) char *below = xasprintf("templates/%s", image->name);
	CLEAN(folder) struct folder f = { .path = home_path(below), .lock = -1 };
	CLEAN(str) char *lock = xasprintf("%s/lock", f.path);

	if (!dir_make(f.path, err))
		return false;
	f.lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (f.lock < 0)
		return err_errno(err, "%s", lock);
	if (!wait_for_lock(loop, &f, err))
		return false;
	*ret_folder = f;
	f = (struct folder){ .lock = -1 };
	return true;
}

/* The file of a template with this id; returns owned. */
static char *part(const struct folder *f, const char *id, const char *kind)
{
	return xasprintf("%s/%s.%s", f->path, id, kind);
}

/* Fills t from the files that the manifest names. */
static bool load(
	const struct folder *f, const struct json *manifest, struct template *t, struct err *err)
{
	const char *id = json_get_str(manifest, "id");
	CLEAN(str) char *state = part(f, id ? id : "", "state");

	t->memory = part(f, id ? id : "", "memory");
	t->disk = t->image->disk ? part(f, id ? id : "", "qcow2") : NULL;
	t->memory_mib = t->image->memory_mib;
	return id && file_exists(t->memory) && (!t->disk || file_exists(t->disk)) &&
	       file_read(state, STATE_MAX, &t->state, err);
}

/* Why the template has to be made; NULL: it fits, and t is filled. Static text. */
static const char *check(const struct folder *f, const struct json *key, struct template *t)
{
	CLEAN(str) char *file = xasprintf("%s/template.json", f->path);
	CLEAN(json) struct json *manifest = NULL;
	const char *differs;
	struct err err;

	if (!file_exists(file))
		return "none";
	manifest = json_parse_file(file, MANIFEST_MAX, &err);
	differs = template_key_differs(key, json_get(manifest, "key"));
	if (differs)
		return differs;
	return load(f, manifest, t, &err) ? NULL : "files";
}

static void tell(template_notice *notice, void *self, const struct image *image, const char *why)
{
	CLEAN(str) char *text = NULL;

	if (!notice)
		return;
	if (!strcmp(why, "none"))
		text = xasprintf(
			"making a template of image %s, once: later machines start from it",
			image->name);
	else if (!strcmp(why, "files"))
		text = xasprintf("making the template of image %s anew: its files are incomplete",
			image->name);
	else
		text = xasprintf(
			"making the template of image %s anew: its %s changed", image->name, why);
	notice(self, text);
}

/* Puts the new files in place of the old ones. */
static bool replace(const struct folder *f, struct json *key, struct err *err)
{
	CLEAN(str) char *file = xasprintf("%s/template.json", f->path);
	CLEAN(json) struct json *manifest = json_object(), *old = NULL;
	CLEAN(str)
	char *id = xasprintf("%llx", (unsigned long long)time(NULL) << 20 | (unsigned)getpid());
	static const char *const kinds[] = { "memory", "state", "qcow2" };
	CLEAN(str) char *text = NULL;
	struct err none;

	json_set(manifest, "key", key);
	json_set_str(manifest, "id", id);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		CLEAN(str) char *from = part(f, "new", kinds[i]);
		CLEAN(str) char *to = part(f, id, kinds[i]);

		if (rename(from, to) < 0 && errno != ENOENT)
			return err_errno(err, "%s", to);
	}
	old = file_exists(file) ? json_parse_file(file, MANIFEST_MAX, &none) : NULL;
	text = json_pretty(manifest);
	if (!file_write(file, text, strlen(text), err))
		return false;
	for (size_t i = 0; i < 2 && json_get_str(old, "id"); i++) {
		CLEAN(str) char *gone = part(f, json_get_str(old, "id"), kinds[i]);

		(void)unlink(gone);
	}
	return true;
}

static bool make(struct loop *loop, const struct folder *f, const struct image *image,
	enum accel accel, struct json **key, struct err *err)
{
	CLEAN(str) char *memory = part(f, "new", "memory");
	CLEAN(str) char *state = part(f, "new", "state");
	CLEAN(str) char *disk = image->disk ? part(f, "new", "qcow2") : NULL;
	bool ok;

	(void)unlink(memory);
	if (disk)
		(void)unlink(disk);
	ok = template_make(loop, image, accel, memory, state, disk, err) &&
	     replace(f, json_take(key), err);
	if (!ok) {
		(void)unlink(memory);
		(void)unlink(state);
		if (disk)
			(void)unlink(disk);
	}
	return ok;
}

bool template_open(struct loop *loop, const struct image *image, template_notice *notice,
	void *self, struct template *ret_template, struct err *err)
{
	CLEAN(folder) struct folder f = { .lock = -1 };
	CLEAN(template) struct template t = { .image = image };
	CLEAN(json) struct json *key = NULL;
	enum accel accel;
	const char *why;

	if (!accel_choose(loop, &accel, &why, err) || !folder_open(loop, image, &f, err))
		return false;
	key = template_key(image, accel);
	why = check(&f, key, &t);
	if (why) {
		tell(notice, self, image, why);
		template_release(&t);
		t.image = image;
		if (!make(loop, &f, image, accel, &key, err))
			return err_in(err, "making a template of image %s", image->name);
		key = template_key(image, accel);
		if (check(&f, key, &t))
			return err_set(err, ERR_SYSTEM,
				"the template of image %s is gone as soon as it is made: look for "
				"what cleans %s",
				image->name, f.path);
	}
	*ret_template = t;
	t = (struct template){ 0 };
	return true;
}

void template_release(struct template *t)
{
	free(t->memory);
	free(t->disk);
	buf_release(&t->state);
	*t = (struct template){ 0 };
}

struct machine *template_clone(struct loop *loop, const struct template *t, const char *overlay,
	const char *console_log, int64_t limit_ms, struct err *err)
{
	const struct machine_spec spec = { .image = t->image,
		.overlay = overlay,
		.console_log = console_log,
		.memory_mib = t->memory_mib,
		.memory = MEMORY_PRIVATE,
		.memory_file = t->memory };
	struct machine *m = machine_start(loop, &spec, err);

	if (m && machine_wake(m, &t->state,
			 clock_in(limit_ms * accel_time_factor(machine_accel(m))), err))
		return m;
	machine_free(m);
	return NULL;
}
