/* SPDX-License-Identifier: Apache-2.0 */
/* Templates as files. */
#include "template_list.h"

#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "template_folder.h"
#include "template_key.h"
#include "template_pages.h"

/* NULL: it is the template of an image. */
static const char *scenario_of(const char *name)
{
	size_t prefix = strlen(FOLDER_SCENARIO);

	return strncmp(name, FOLDER_SCENARIO, prefix) != 0 ? NULL : name + prefix;
}

/* NULL: nobody knows. Templates of images that were made by an older postern don't say it. */
static const char *image_of(const char *name, const struct json *manifest)
{
	return scenario_of(name) ? json_get_str(manifest, "image") : name;
}

/* The id of the template that it was made from; NULL: it was made from a boot. */
static const char *base_of(const struct json *manifest)
{
	return json_get_str(json_get(manifest, "key"), "image's template");
}

/* There is none of it: can't it be seen, is the name wrong, or was no machine started yet? */
static bool no_template(const char *name, struct err *err)
{
	CLEAN(image) struct image image = { 0 };
	CLEAN(str) char *others = NULL;

	if (!template_names(&others, err))
		return false;
	if (scenario_of(name))
		return err_set(err, ERR_INPUT,
			"there is no template of a scenario %s; see postern template ls",
			scenario_of(name));
	if (!image_open(name, &image, err))
		return err_in(err, "there is no template of an image %s", name);
	return err_set(err, ERR_INPUT,
		"there is no template of an image %s; see postern template ls", name);
}

/* Does the image have anything but the lock? One that can't be looked into may. */
static bool holds_any(const struct folder *f)
{
	struct folder_use use;
	struct err err;

	return !folder_measure(f, NULL, &use, &err) || use.files;
}

static struct folder *open_folder(const char *image, struct err *err)
{
	CLEAN(str) char *below = xasprintf("templates/%s/lock", image);
	CLEAN(str) char *lock = home_path(below);
	struct folder *f;

	if (!*image || strchr(image, '/') || *image == '.' || file_is_missing(lock))
		return no_template(image, err), NULL;
	f = folder_open(image, err);
	if (!f || holds_any(f))
		return f;
	folder_free(f);
	return no_template(image, err), NULL;
}

/* A folder that was emptied has none; one that can't be opened may have one. */
static bool is_empty(const char *image)
{
	struct err err;
	CLEAN(folder) struct folder *f = folder_open(image, &err);

	return f && !holds_any(f);
}

static void add_name(struct buf *names, const char *name)
{
	buf_printf(names, "%s%s", names->len ? ", " : "", name);
}

bool template_names(char **ret_names, struct err *err)
{
	CLEAN(str) char *folder = home_path("templates");
	CLEAN(buf) struct buf names = { 0 }, images = { 0 };
	CLEAN(str) char *all = NULL;
	char *rest, *name;

	if (!dir_list(folder, "lock", &all, err))
		return false;
	rest = all;
	while (name = list_next(&rest), name)
		if (!is_empty(name))
			add_name(scenario_of(name) ? &names : &images, name);
	if (images.len)
		add_name(&names, buf_text(&images));
	*ret_names = names.len ? buf_take(&names) : NULL;
	return true;
}

/* The id of an image's template; "": there is none. Owned. */
static char *id_of(const char *image)
{
	struct err err;
	CLEAN(folder) struct folder *f = open_folder(image, &err);
	CLEAN(json) struct json *manifest = f ? folder_manifest(f) : NULL;
	const char *id = json_get_str(manifest, "id");

	return xstrdup(id ? id : "");
}

/* Why no machine may start from it, owned; NULL: it fits. */
static char *misfit(
	const struct folder *f, const char *name, const struct json *manifest, enum accel accel)
{
	const char *of = image_of(name, manifest);
	CLEAN(image) struct image image = { 0 };
	CLEAN(json) struct json *key = NULL;
	CLEAN(str) char *base = base_of(manifest) ? id_of(of ? of : "") : NULL;
	CLEAN(template) struct template t = { .image = &image };
	const char *why;
	struct err err;

	if (!of)
		return template_reason(folder_has_manifest(f) ? "files" : "none");
	if (!image_open(of, &image, &err))
		return xstrdup(err.text);
	t.memory_mib = (int)json_get_int(manifest, "memory_mib", image.memory_mib);
	key = template_key(&image, t.memory_mib, accel, base);
	why = template_check(f, key, &t);
	return why ? template_reason(why) : NULL;
}

struct json *template_describe(struct loop *loop, const char *name, struct err *err)
{
	CLEAN(folder) struct folder *f = open_folder(name, err);
	CLEAN(json) struct json *manifest = NULL;
	CLEAN(str) char *reason = NULL;
	struct folder_use use;
	struct json *out;
	enum accel accel;
	const char *why;

	if (!f || !accel_choose(loop, &accel, &why, err))
		return NULL;
	manifest = folder_manifest(f);
	if (!folder_measure(f, json_get_str(manifest, "id"), &use, err))
		return NULL;
	reason = misfit(f, name, manifest, accel);
	out = json_object();
	json_set_str(out, "name", name);
	json_set_str(out, "image", image_of(name, manifest));
	json_set_str(out, "scenario", scenario_of(name));
	json_set_str(out, "made", json_get_str(manifest, "made"));
	json_set_bool(out, "fits", !reason);
	json_set_str(out, "reason", reason);
	json_set_int(out, "bytes", use.bytes);
	json_set_int(out, "old_overlays", use.old_overlays);
	return out;
}

static bool verify_file(const struct folder *f, const char *id, const char *kind,
	const char *wanted, struct err *err)
{
	CLEAN(str) char *file = folder_file(f, id, kind);
	char hash[SHA256_TEXT];

	if (!pages_hash(file, hash, err))
		return false;
	return !strcmp(hash, wanted) ||
	       err_set(err, ERR_INPUT, "%s is not as it was made: its SHA-256 differs", file);
}

bool template_verify(
	struct loop *loop, const char *name, template_notice *notice, void *self, struct err *err)
{
	CLEAN(folder) struct folder *f = open_folder(name, err);
	CLEAN(json) struct json *manifest = NULL;
	const struct json *hashes;
	const char *id;

	if (!f || !folder_lock(loop, f, LOCK_SH, notice, self, err))
		return false;
	manifest = folder_manifest(f);
	id = json_get_str(manifest, "id");
	hashes = json_get(manifest, "hashes");
	if (!id || !json_len(hashes))
		return err_set(err, ERR_INPUT,
			"%s has no whole template: the next machine makes one", f->title);
	for (size_t i = 0; i < FOLDER_KINDS; i++) {
		const char *hash = json_get_str(hashes, folder_kinds[i]);

		if (hash && !verify_file(f, id, folder_kinds[i], hash, err))
			return err_in(err, "the template of %s is damaged, remove it", f->title);
	}
	return true;
}

/* Does its disk stand on that of the image's? */
static bool stands_on(const char *name, const char *image)
{
	struct err err;
	CLEAN(folder) struct folder *f = scenario_of(name) ? open_folder(name, &err) : NULL;
	CLEAN(json) struct json *manifest = f ? folder_manifest(f) : NULL;
	const char *its = image_of(name, manifest);

	return base_of(manifest) && its && !strcmp(its, image);
}

static bool remove_dependent(struct loop *loop, const char *name, const struct folder *under,
	template_notice *notice, void *self, struct err *err)
{
	CLEAN(folder) struct folder *f = open_folder(name, err);
	CLEAN(str) char *text = NULL;

	if (!f || !folder_lock(loop, f, LOCK_EX, notice, self, err) || !folder_empty(f, err))
		return false;
	text = xasprintf("removed the template of %s too: its disk stood on that of the one of %s",
		f->title, under->title);
	notice(self, text);
	return true;
}

/* Nobody makes or starts one that stands there while we hold the lock of the one below. */
static bool remove_dependents(struct loop *loop, const char *name, const struct folder *under,
	template_notice *notice, void *self, struct err *err)
{
	CLEAN(str) char *names = NULL;
	char *rest, *other;

	if (!template_names(&names, err))
		return false;
	rest = names;
	while (other = list_next(&rest), other)
		if (stands_on(other, name) &&
			!remove_dependent(loop, other, under, notice, self, err))
			return false;
	return true;
}

bool template_remove(struct loop *loop, const char *name, template_notice *notice, void *self,
	struct folder_use *ret_removed, struct err *err)
{
	CLEAN(folder) struct folder *f = open_folder(name, err);

	if (!f || !folder_lock(loop, f, LOCK_EX, notice, self, err) ||
		!folder_measure(f, NULL, ret_removed, err))
		return false;
	/* Another process may have removed it while we waited. */
	if (!ret_removed->files)
		return no_template(name, err);
	return remove_dependents(loop, name, f, notice, self, err) && folder_empty(f, err);
}
