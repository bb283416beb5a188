/* SPDX-License-Identifier: Apache-2.0 */
/* From new files of a template to one that others may open. */
#include "template_store.h"

#include <stdio.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"

#define MIB	  1048576ULL
#define SPARE_MIB 64 /* beside the memory */

/* No other template has it: overlays of those that are gone keep their names. Owned. */
static char *new_id(void)
{
	unsigned long long id = 0;

	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		id = (unsigned long long)time(NULL);
	return xasprintf("%016llx", id);
}

/* Gives the new files their names, and hashes and keeps those that have no hash yet. */
static bool keep_files(const struct folder *f, const char *id, struct json *hashes, struct err *err)
{
	for (size_t i = 0; i < FOLDER_KINDS; i++) {
		CLEAN(str) char *from = folder_file(f, "new", folder_kinds[i]);
		CLEAN(str) char *to = folder_file(f, id, folder_kinds[i]);
		char hash[SHA256_TEXT];

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

/* The scenario's template can be told to fit without its scenario. */
static void put_plan(struct json *manifest, const struct template_plan *plan)
{
	json_set_str(manifest, "image", plan->image->name);
	if (plan->change && plan->change->memory_mib)
		json_set_int(manifest, "memory_mib", plan->change->memory_mib);
}

bool store_files(const struct folder *f, const struct template_plan *plan, const struct json *key,
	const struct template_made *made, struct err *err)
{
	CLEAN(json) struct json *manifest = json_object();
	CLEAN(str) char *id = new_id();
	char made_at[CLOCK_STAMP];
	struct json *hashes;

	json_set_str(manifest, "id", id);
	clock_stamp(made_at);
	json_set_str(manifest, "made", made_at);
	put_plan(manifest, plan);
	json_set(manifest, "key", json_copy(key));
	if (made->said)
		json_set(manifest, "said", json_copy(made->said));
	hashes = json_set(manifest, "hashes", json_object());
	if (made->memory_hash[0])
		json_set_str(hashes, "memory", made->memory_hash);
	return keep_files(f, id, hashes, err) && folder_write_manifest(f, manifest, err);
}

bool store_has_room(const struct folder *f, const struct template_plan *plan, struct err *err)
{
	unsigned long long need = (unsigned long long)plan->memory_mib + SPARE_MIB;
	struct statvfs fs;

	if (statvfs(f->path, &fs) < 0)
		return err_errno(err, "%s", f->path);
	return fs.f_bavail * fs.f_frsize / MIB >= need ||
	       err_set(err, ERR_SYSTEM,
		       "%s has %llu MiB free and a template of %s may take %llu: make room, "
		       "or point POSTERN_HOME elsewhere",
		       f->path, (unsigned long long)(fs.f_bavail * fs.f_frsize / MIB), f->title,
		       need);
}
