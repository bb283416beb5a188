/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what the image-builder wrote. */
#include "image.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/xalloc.h"

#define MANIFEST_MAX (4 << 20) /* it lists packages */
#define MEMORY_MIN   64
#define MEMORY_MAX   65536

static bool name_is_plain(const char *name)
{
	return *name && *name != '.' && strlen(name) <= 64 &&
	       !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-_")];
}

/* The absolute path of a file of the image. NULL: it is not there. */
static char *part(const char *dir, const struct json *manifest, const char *key)
{
	const char *name = json_get_str(manifest, key);
	CLEAN(str) char *path = name ? xasprintf("%s/%s", dir, name) : NULL;

	return path ? realpath(path, NULL) : NULL;
}

static char **words(const struct json *array)
{
	size_t n = json_len(array), used = 0;
	char **list = n ? xcalloc(n + 1, sizeof(char *)) : NULL;

	for (size_t i = 0; i < n; i++) {
		const char *word = json_text(json_at(array, i));

		if (word)
			list[used++] = xstrdup(word);
	}
	return list;
}

static char *text(const struct json *manifest, const char *key)
{
	const char *s = json_get_str(manifest, key);

	return s ? xstrdup(s) : NULL;
}

static bool fill(struct image *image, const char *dir, const struct json *manifest, struct err *err)
{
	int64_t memory = json_get_int(manifest, "memory_mib", 0);

	image->recipe = text(manifest, "recipe");
	image->append = text(manifest, "append");
	image->kernel = part(dir, manifest, "kernel");
	image->initramfs = part(dir, manifest, "initramfs");
	image->disk = part(dir, manifest, "disk");
	image->ready = words(json_get(manifest, "ready"));
	if (!image->recipe || !image->append || !image->kernel || !image->initramfs ||
		memory < MEMORY_MIN || memory > MEMORY_MAX ||
		(json_get(manifest, "disk") && !image->disk))
		return err_set(err, ERR_INPUT,
			"image %s is incomplete: build it again with `make images`", image->name);
	image->memory_mib = (int)memory;
	return true;
}

/* Those that people use: not the one of `make bench`. Owned; NULL: none. */
static bool image_names(const char *folder, char **ret_names, struct err *err)
{
	CLEAN(buf) struct buf names = { 0 };
	CLEAN(str) char *all = NULL;
	char *rest, *name;

	if (!dir_list(folder, "image.json", &all, err))
		return false;
	rest = all;
	while (name = list_next(&rest), name)
		if (strcmp(name, "bench") != 0)
			buf_printf(&names, "%s%s", names.len ? ", " : "", name);
	*ret_names = names.len ? buf_take(&names) : NULL;
	return true;
}

static bool no_image(const char *name, struct err *err)
{
	CLEAN(str) char *folder = home_path("images");
	CLEAN(str) char *others = NULL;

	if (!image_names(folder, &others, err))
		return false;
	if (!others)
		return err_set(err, ERR_INPUT,
			"there is no image %s in %s: build it with `make images`", name, folder);
	if (!strchr(others, ','))
		return err_set(err, ERR_INPUT,
			"there is no image %s, only %.300s: `make images` builds the rest", name,
			others);
	return err_set(err, ERR_INPUT, "there is no image %s; there are %.300s", name, others);
}

bool image_open(const char *name, struct image *ret_image, struct err *err)
{
	CLEAN(str) char *below = xasprintf("images/%s", name);
	CLEAN(str) char *dir = home_path(below);
	CLEAN(str) char *file = xasprintf("%s/image.json", dir);
	CLEAN(json) struct json *manifest = NULL;
	CLEAN(image) struct image image = { 0 };

	if (!name_is_plain(name) || file_is_missing(file))
		return no_image(name, err);
	if (access(file, R_OK) < 0)
		return err_errno(err, "%s (let this user read it)", file);
	manifest = json_parse_file(file, MANIFEST_MAX, err);
	if (!manifest)
		return err_in(err, "build the image again with `make images`");
	image.name = xstrdup(name);
	if (!fill(&image, dir, manifest, err))
		return false;
	*ret_image = image;
	image = (struct image){ 0 };
	return true;
}

void image_release(struct image *image)
{
	if (!image)
		return;
	for (char **s = image->ready; s && *s; s++)
		free(*s);
	free(image->ready);
	free(image->name);
	free(image->recipe);
	free(image->kernel);
	free(image->initramfs);
	free(image->disk);
	free(image->append);
	*image = (struct image){ 0 };
}

char *image_toolbox(void)
{
	return home_path("images/toolbox/busybox");
}
