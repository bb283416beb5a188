/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: opening, making, cloning. */
#include "template.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "template_folder.h"
#include "template_key.h"
#include "template_make.h"
#include "template_pages.h"

#define STATE_MAX (64 << 20)
#define MIB	  1048576ULL
#define SPARE_MIB 64 /* beside the memory */

/* How long a template takes to make under emulation, roughly. */
#define SECONDS_AT_HELLO 10 /* of an image that is up when its agent is */
#define SECONDS_BOOTED	 40

static bool has_size(const char *path, off_t size)
{
	struct stat st;

	/* QEMU would make a file that is empty as large as it should be. */
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == size;
}

/* Fills t from the files that the manifest names. */
static bool load(
	const struct folder *f, const struct json *manifest, struct template *t, struct err *err)
{
	const char *id = json_get_str(manifest, "id");
	CLEAN(str) char *state = folder_file(f, id ? id : "", "state");

	t->memory = folder_file(f, id ? id : "", "memory");
	t->disk = t->image->disk ? folder_file(f, id ? id : "", "qcow2") : NULL;
	return id && has_size(t->memory, (off_t)t->image->memory_mib << 20) &&
	       (!t->disk || file_exists(t->disk)) && file_read(state, STATE_MAX, &t->state, err) &&
	       t->state.len;
}

const char *template_check(const struct folder *f, const struct json *key, struct template *t)
{
	CLEAN(json) struct json *manifest = folder_manifest(f);
	const char *differs;
	struct err err;

	if (!manifest)
		return folder_has_manifest(f) ? "files" : "none";
	differs = template_key_differs(key, json_get(manifest, "key"));
	if (differs)
		return differs;
	if (load(f, manifest, t, &err))
		return NULL;
	free(t->memory);
	free(t->disk);
	buf_release(&t->state);
	t->memory = t->disk = NULL;
	return "files";
}

char *template_reason(const char *why)
{
	if (!strcmp(why, "none"))
		return xstrdup("there are only disks of old ones, or parts of one");
	if (!strcmp(why, "files"))
		return xstrdup("its files are incomplete");
	return xasprintf("its %s changed", why);
}

static void tell(template_notice *notice, void *self, const struct image *image, enum accel accel,
	const char *why)
{
	CLEAN(str) char *reason = template_reason(why);
	CLEAN(str) char *does = NULL;
	CLEAN(str) char *text = NULL;

	if (!notice)
		return;
	if (!strcmp(why, "none"))
		does = xasprintf(
			"making a template of image %s, once: later machines start from it",
			image->name);
	else
		does = xasprintf("making the template of image %s anew: %s", image->name, reason);
	if (accel == ACCEL_KVM)
		text = xasprintf("%s; this takes some seconds", does);
	else
		text = xasprintf("%s; this takes about %d s under emulation", does,
			image->ready ? SECONDS_BOOTED : SECONDS_AT_HELLO);
	notice(self, text);
}

/* No other template has it: overlays of those that are gone keep their names. Owned. */
static char *new_id(void)
{
	unsigned long long id = 0;

	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		id = (unsigned long long)time(NULL);
	return xasprintf("%016llx", id);
}

static void set_time(struct json *manifest)
{
	time_t now = time(NULL);
	char text[32] = "";
	struct tm tm;

	if (gmtime_r(&now, &tm))
		(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_set_str(manifest, "made", text);
}

/* Gives the new files their names, and hashes and keeps those that have no hash yet. */
static bool keep_files(const struct folder *f, const char *id, struct json *hashes, struct err *err)
{
	for (size_t i = 0; i < FOLDER_KINDS; i++) {
		CLEAN(str) char *from = folder_file(f, "new", folder_kinds[i]);
		CLEAN(str) char *to = folder_file(f, id, folder_kinds[i]);
		char hash[PAGES_HASH];

		if (!file_exists(from))
			continue;
		if (!json_get(hashes, folder_kinds[i])) {
			if (!pages_hash(from, hash, err) || !pages_sync(from, err))
				return false;
			json_set_str(hashes, folder_kinds[i], hash);
		}
		if (rename(from, to) < 0)
			return err_errno(err, "%s", to);
	}
	return true;
}

/* Puts the new files in place of the old ones. */
static bool replace(
	const struct folder *f, const struct json *key, const char *memory_hash, struct err *err)
{
	CLEAN(json) struct json *manifest = json_object();
	CLEAN(str) char *id = new_id();
	struct json *hashes;

	json_set_str(manifest, "id", id);
	set_time(manifest);
	json_set(manifest, "key", json_copy(key));
	hashes = json_set(manifest, "hashes", json_object());
	json_set_str(hashes, "memory", memory_hash);
	return keep_files(f, id, hashes, err) && folder_write_manifest(f, manifest, err);
}

static bool has_room(const struct folder *f, const struct image *image, struct err *err)
{
	unsigned long long need = (unsigned long long)image->memory_mib + SPARE_MIB;
	struct statvfs fs;

	if (statvfs(f->path, &fs) < 0)
		return err_errno(err, "%s", f->path);
	return fs.f_bavail * fs.f_frsize / MIB >= need ||
	       err_set(err, ERR_SYSTEM,
		       "%s has %llu MiB free and a template of image %s may take %llu: make room, "
		       "or point POSTERN_HOME elsewhere",
		       f->path, (unsigned long long)(fs.f_bavail * fs.f_frsize / MIB), image->name,
		       need);
}

static bool make(struct loop *loop, const struct folder *f, const struct image *image,
	const struct json *key, enum accel accel, bool *ret_boots, struct err *err)
{
	CLEAN(json) struct json *old = folder_manifest(f), *now = NULL;
	CLEAN(str) char *memory = folder_file(f, "new", "memory");
	CLEAN(str) char *state = folder_file(f, "new", "state");
	CLEAN(str) char *disk = image->disk ? folder_file(f, "new", "qcow2") : NULL;
	const struct template_files files = { memory, state, disk };
	char hash[PAGES_HASH];
	bool ok;

	folder_sweep(f, json_get_str(old, "id"));
	ok = has_room(f, image, err) &&
	     template_make(loop, image, accel, &files, hash, ret_boots, err) &&
	     replace(f, key, hash, err);
	now = folder_manifest(f);
	folder_sweep(f, json_get_str(now, "id"));
	/* A boot that fails is told as any other. */
	return ok || (*ret_boots && err_in(err, "making a template of image %s", image->name));
}

/* Another process may have made it while we waited. Holds the shared lock afterwards. */
static bool make_unless_made(struct loop *loop, struct template *t, const struct json *key,
	enum accel accel, template_notice *notice, void *self, bool *ret_boots, struct err *err)
{
	struct template other = { .image = t->image };
	const char *why;
	bool ok = true;

	if (!folder_lock(loop, t->folder, LOCK_EX, notice, self, err))
		return false;
	why = template_check(t->folder, key, &other);
	template_release(&other);
	if (why) {
		tell(notice, self, t->image, accel, why);
		ok = make(loop, t->folder, t->image, key, accel, ret_boots, err);
	}
	return ok && folder_lock(loop, t->folder, LOCK_SH, notice, self, err);
}

bool template_open(struct loop *loop, const struct image *image, template_notice *notice,
	void *self, struct template *ret_template, bool *ret_boots, struct err *err)
{
	CLEAN(template) struct template t = { .image = image };
	CLEAN(json) struct json *key = NULL;
	enum accel accel;
	const char *why;

	*ret_boots = true;
	if (!accel_choose(loop, &accel, &why, err) || !(t.folder = folder_open(image->name, err)) ||
		!folder_lock(loop, t.folder, LOCK_SH, notice, self, err))
		return false;
	key = template_key(image, accel);
	why = template_check(t.folder, key, &t);
	if (why && !make_unless_made(loop, &t, key, accel, notice, self, ret_boots, err))
		return false;
	if (why && (why = template_check(t.folder, key, &t)))
		return err_set(err, ERR_SYSTEM,
			"the template of image %s is gone as soon as it is made: look for what "
			"else uses %s",
			image->name, t.folder->path);
	*ret_template = t;
	t = (struct template){ 0 };
	return true;
}

void template_release(struct template *t)
{
	folder_free(t->folder);
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
		.memory = MEMORY_PRIVATE,
		.memory_file = t->memory };
	struct machine *m = machine_start(loop, &spec, err);

	if (!m)
		return NULL;
	if (machine_wake(
		    m, &t->state, clock_in(limit_ms * accel_time_factor(machine_accel(m))), err))
		return m;
	if (err->code != ERR_INTERRUPTED && err->code != ERR_DENIED)
		folder_drop_manifest(t->folder);
	machine_free(m);
	return NULL;
}
