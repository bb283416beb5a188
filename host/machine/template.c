/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: opening, making when there is none that fits, cloning. */
#include "template.h"

#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "template_folder.h"
#include "template_key.h"
#include "template_make.h"
#include "template_store.h"

#define STATE_MAX (64 << 20)

/* How long a boot takes to become a template under emulation, roughly. */
#define SECONDS_AT_HELLO 10 /* of an image that is up when its agent is */
#define SECONDS_BOOTED	 40

/* What is wanted, and by whom. */
struct opening {
	struct loop *loop;
	struct template_plan plan;
	const struct json *key;
	template_notice *notice;
	void *self;
	bool *ret_avoidable;
};

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

	t->id = xstrdup(id ? id : "");
	t->memory = folder_file(f, t->id, "memory");
	t->disk = t->image->disk ? folder_file(f, t->id, "qcow2") : NULL;
	if (json_get(manifest, "said"))
		t->said = json_copy(json_get(manifest, "said"));
	return id && has_size(t->memory, (off_t)t->memory_mib << 20) &&
	       (!t->disk || file_exists(t->disk)) && file_read(state, STATE_MAX, &t->state, err) &&
	       t->state.len;
}

static void unload(struct template *t)
{
	free(t->id);
	free(t->memory);
	free(t->disk);
	buf_release(&t->state);
	json_free(t->said);
	t->id = t->memory = t->disk = NULL;
	t->said = NULL;
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
	unload(t);
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

static void tell(const struct opening *o, const char *title, const char *why)
{
	const struct template_plan *plan = &o->plan;
	CLEAN(str) char *reason = template_reason(why);
	CLEAN(str) char *does = NULL;
	CLEAN(str) char *text = NULL;

	if (!o->notice)
		return;
	if (!strcmp(why, "none"))
		does = xasprintf("making a template of %s, once: later %s start from it", title,
			plan->change ? "trials" : "machines");
	else
		does = xasprintf("making the template of %s anew: %s", title, reason);
	if (plan->base || plan->accel == ACCEL_KVM)
		text = xasprintf("%s; this takes some seconds", does);
	else
		text = xasprintf("%s; this takes about %d s under emulation", does,
			plan->image->ready ? SECONDS_BOOTED : SECONDS_AT_HELLO);
	o->notice(o->self, text);
}

static bool make(const struct opening *o, const struct folder *f, struct err *err)
{
	CLEAN(json) struct json *old = folder_manifest(f), *now = NULL;
	CLEAN(str) char *memory = folder_file(f, "new", "memory");
	CLEAN(str) char *state = folder_file(f, "new", "state");
	CLEAN(str) char *disk = o->plan.image->disk ? folder_file(f, "new", "qcow2") : NULL;
	const struct template_files files = { memory, state, disk };
	CLEAN(template_made) struct template_made made = { 0 };
	bool ok;

	folder_sweep(f, json_get_str(old, "id"));
	ok = store_has_room(f, &o->plan, err) &&
	     template_make(o->loop, &o->plan, &files, &made, o->ret_avoidable, err) &&
	     store_files(f, &o->plan, o->key, &made, err);
	now = folder_manifest(f);
	folder_sweep(f, json_get_str(now, "id"));
	/* What fails in any machine is told as it would be there. */
	return ok || (*o->ret_avoidable && err_in(err, "making a template of %s", f->title));
}

/* Another process may have made it while we waited. Holds the shared lock afterwards. */
static bool make_unless_made(const struct opening *o, struct template *t, struct err *err)
{
	struct template other = { .image = t->image, .memory_mib = t->memory_mib };
	const char *why;
	bool ok = true;

	if (!folder_lock(o->loop, t->folder, LOCK_EX, o->notice, o->self, err))
		return false;
	why = template_check(t->folder, o->key, &other);
	template_release(&other);
	if (why) {
		tell(o, t->folder->title, why);
		ok = make(o, t->folder, err);
	}
	return ok && folder_lock(o->loop, t->folder, LOCK_SH, o->notice, o->self, err);
}

static bool open_it(
	const struct opening *o, const char *name, struct template *ret_template, struct err *err)
{
	CLEAN(template)
	struct template t = { .image = o->plan.image, .memory_mib = o->plan.memory_mib };
	const char *why;

	t.folder = folder_open(name, err);
	if (!t.folder || !folder_lock(o->loop, t.folder, LOCK_SH, o->notice, o->self, err))
		return false;
	why = template_check(t.folder, o->key, &t);
	if (why && !make_unless_made(o, &t, err))
		return false;
	if (why && template_check(t.folder, o->key, &t))
		return err_set(err, ERR_SYSTEM,
			"the template of %s is gone as soon as it is made: look for what else uses "
			"%s",
			t.folder->title, t.folder->path);
	*ret_template = t;
	t = (struct template){ 0 };
	return true;
}

bool template_open(struct loop *loop, const struct image *image, template_notice *notice,
	void *self, struct template *ret_template, bool *ret_avoidable, struct err *err)
{
	struct opening o = { .loop = loop,
		.plan = { .image = image, .memory_mib = image->memory_mib },
		.notice = notice,
		.self = self,
		.ret_avoidable = ret_avoidable };
	CLEAN(json) struct json *key = NULL;
	const char *why;

	*ret_avoidable = true;
	if (!accel_choose(loop, &o.plan.accel, &why, err))
		return false;
	key = template_key(image, image->memory_mib, o.plan.accel, NULL);
	o.key = key;
	return open_it(&o, image->name, ret_template, err);
}

static void add_inputs(struct json *key, const struct json *inputs)
{
	for (size_t i = 0; i < json_len(inputs); i++) {
		const struct json *input = json_at(inputs, i);

		json_set(key, json_name(input), json_copy(input));
	}
}

bool template_open_changed(struct loop *loop, const struct image *image,
	const struct template_change *change, template_notice *notice, void *self,
	struct template *ret_template, bool *ret_avoidable, struct err *err)
{
	CLEAN(template) struct template base = { 0 };
	CLEAN(json) struct json *key = NULL;
	CLEAN(str) char *name = xasprintf(FOLDER_SCENARIO "%s", change->scenario);
	int memory_mib = change->memory_mib ? change->memory_mib : image->memory_mib;
	struct opening o = { .loop = loop,
		.plan = { .image = image, .change = change, .memory_mib = memory_mib },
		.notice = notice,
		.self = self,
		.ret_avoidable = ret_avoidable };
	const char *why;

	*ret_avoidable = true;
	if (!accel_choose(loop, &o.plan.accel, &why, err))
		return false;
	if (memory_mib == image->memory_mib) {
		if (!template_open(loop, image, notice, self, &base, ret_avoidable, err))
			return false;
		o.plan.base = &base;
	}
	key = template_key(image, memory_mib, o.plan.accel, base.id);
	add_inputs(key, change->inputs);
	o.key = key;
	if (!open_it(&o, name, ret_template, err))
		return false;
	/* Its disk is needed until a clone has opened it. */
	ret_template->base = base.folder;
	base.folder = NULL;
	return true;
}

void template_release(struct template *t)
{
	folder_free(t->folder);
	folder_free(t->base);
	unload(t);
	*t = (struct template){ 0 };
}

struct machine *template_clone(struct loop *loop, const struct template *t, const char *overlay,
	const char *console_log, struct err *err)
{
	const struct machine_spec spec = { .image = t->image,
		.overlay = overlay,
		.memory_mib = t->memory_mib,
		.console_log = console_log,
		.memory = MEMORY_PRIVATE,
		.memory_file = t->memory };
	struct machine *m = machine_start(loop, &spec, err);

	if (!m || template_wake(m, t, err))
		return m;
	machine_free(m);
	return NULL;
}
