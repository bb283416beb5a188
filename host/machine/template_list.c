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

static struct folder *open_folder(const char *image, struct err *err)
{
	CLEAN(str) char *below = xasprintf("templates/%s/lock", image);
	CLEAN(str) char *lock = home_path(below);

	if (strchr(image, '/') || *image == '.' || !file_exists(lock)) {
		err_set(err, ERR_INPUT,
			"there is no template of an image %s; see postern template ls", image);
		return NULL;
	}
	return folder_open(image, err);
}

static struct folder_use measure(const struct folder *f, const struct json *manifest)
{
	return folder_measure(f, json_get_str(manifest, "id"));
}

/* A folder that was emptied has none. */
static bool holds_any(const char *image)
{
	struct err err;
	CLEAN(folder) struct folder *f = open_folder(image, &err);

	return f && folder_measure(f, NULL).bytes;
}

char *template_names(void)
{
	CLEAN(str) char *folder = home_path("templates");
	CLEAN(str) char *all = dir_list(folder, "lock");
	CLEAN(buf) struct buf names = { 0 };
	char *rest = NULL;

	for (char *name = all ? strtok_r(all, ", ", &rest) : NULL; name;
		name = strtok_r(NULL, ", ", &rest))
		if (holds_any(name))
			buf_printf(&names, "%s%s", names.len ? ", " : "", name);
	return names.len ? buf_take(&names) : NULL;
}

/* Why no machine may start from it, owned; NULL: it fits. */
static char *misfit(const char *name, const struct json *manifest, enum accel accel)
{
	CLEAN(image) struct image image = { 0 };
	CLEAN(json) struct json *key = NULL;
	const char *differs;
	struct err err;

	if (!manifest)
		return xstrdup("there are only disks of old ones, or parts of one");
	if (!image_open(name, &image, &err))
		return xstrdup("its image is gone");
	key = template_key(&image, accel);
	differs = template_key_differs(key, json_get(manifest, "key"));
	return differs ? xasprintf("its %s changed", differs) : NULL;
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
	reason = misfit(image, manifest, accel);
	use = measure(f, manifest);
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

bool template_remove(
	struct loop *loop, const char *image, template_notice *notice, void *self, struct err *err)
{
	CLEAN(folder) struct folder *f = open_folder(image, err);

	return f && folder_lock(loop, f, LOCK_EX, notice, self, err) && folder_empty(f, err);
}
