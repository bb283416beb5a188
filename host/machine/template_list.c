/* SPDX-License-Identifier: Apache-2.0 */
/* Templates as files. */
#include "template_list.h"

#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "template_folder.h"
#include "template_key.h"
#include "template_pages.h"

/* There is none of it: can't it be seen, is the name wrong, or was no machine started yet? */
static bool no_template(const char *name, struct err *err)
{
	CLEAN(image) struct image image = { 0 };
	CLEAN(str) char *others = NULL;

	if (!template_names(&others, err))
		return false;
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

bool template_names(char **ret_names, struct err *err)
{
	CLEAN(str) char *folder = home_path("templates");
	CLEAN(buf) struct buf names = { 0 };
	CLEAN(str) char *all = NULL;
	char *rest = NULL;

	if (!dir_list(folder, "lock", &all, err))
		return false;
	for (char *name = all ? strtok_r(all, ", ", &rest) : NULL; name;
		name = strtok_r(NULL, ", ", &rest))
		if (!is_empty(name))
			buf_printf(&names, "%s%s", names.len ? ", " : "", name);
	*ret_names = names.len ? buf_take(&names) : NULL;
	return true;
}

/* Why no machine may start from it, owned; NULL: it fits. */
static char *misfit(const struct folder *f, enum accel accel)
{
	CLEAN(image) struct image image = { 0 };
	CLEAN(json) struct json *key = NULL;
	struct template t = { .image = &image };
	const char *why;
	struct err err;

	if (!image_open(f->image, &image, &err))
		return xstrdup(err.text);
	key = template_key(&image, accel);
	why = template_check(f, key, &t);
	template_release(&t);
	return why ? template_reason(why) : NULL;
}

struct json *template_describe(struct loop *loop, const char *image, struct err *err)
{
	CLEAN(folder) struct folder *f = open_folder(image, err);
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
	reason = misfit(f, accel);
	out = json_object();
	json_set_str(out, "image", image);
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
	char hash[PAGES_HASH];

	if (!pages_hash(file, hash, err))
		return false;
	return !strcmp(hash, wanted) ||
	       err_set(err, ERR_INPUT, "%s is not as it was made: its SHA-256 differs", file);
}

bool template_verify(
	struct loop *loop, const char *image, template_notice *notice, void *self, struct err *err)
{
	CLEAN(folder) struct folder *f = open_folder(image, err);
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
			"image %s has no whole template: the next machine makes one", image);
	for (size_t i = 0; i < FOLDER_KINDS; i++) {
		const char *hash = json_get_str(hashes, folder_kinds[i]);

		if (hash && !verify_file(f, id, folder_kinds[i], hash, err))
			return err_in(err, "the template of image %s is damaged, remove it", image);
	}
	return true;
}

bool template_remove(struct loop *loop, const char *image, template_notice *notice, void *self,
	struct folder_use *ret_removed, struct err *err)
{
	CLEAN(folder) struct folder *f = open_folder(image, err);

	if (!f || !folder_lock(loop, f, LOCK_EX, notice, self, err) ||
		!folder_measure(f, NULL, ret_removed, err))
		return false;
	/* Another process may have removed it while we waited. */
	return ret_removed->files ? folder_empty(f, err) : no_template(image, err);
}
