/* SPDX-License-Identifier: Apache-2.0 */
/* Saving a running machine, and what can be started from that. */
#include "snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/process.h"
#include "base/xalloc.h"
#include "preflight.h"
#include "template_folder.h"
#include "template_key.h"
#include "template_pages.h"

#define ID	  "saved" /* of its files, as a template has one */
#define FREEZE_MS 60000	  /* times the factor: for the guest to write its disk, and to be saved */
#define ANSWER_MS 10000	  /* that it may be late with that */
#define PASS_MS	  60000	  /* times the factor, and for each GiB of memory */
#define HEAL_MS	  10000	  /* times the factor */
#define FILE_MS	  600000  /* for any of its files, on a busy host */
#define MIB	  1048576LL
#define SPARE_MIB 64 /* beside memory and disk */
#define FULL_MIB  16 /* less is no room */

struct taking {
	struct loop *loop;
	const struct snapshot_spec *spec;
	const struct folder *folder;
	int stream, memory;   /* files in memory: all of the machine, the memory of the copy */
	struct machine *copy; /* owned */
	struct snapshot_taken taken;
	bool stands_still;
};

static void taking_clean(struct taking *t)
{
	machine_free(t->copy);
	fd_close(&t->stream);
	fd_close(&t->memory);
}

static int64_t limit(const struct taking *t, int64_t ms)
{
	return clock_in(ms * accel_time_factor(machine_accel(t->spec->machine)));
}

static bool has_room(const struct snapshot_spec *spec, const char *folder, struct err *err)
{
	long long need = spec->memory_mib + SPARE_MIB, left = limit_left(LIMIT_DISK, folder);
	struct stat st;

	if (spec->overlay && stat(spec->overlay, &st) == 0)
		need += st.st_blocks * 512 / MIB;
	return left < 0 || left >= need ||
	       err_set(err, ERR_LIMIT,
		       "%s has %lld MiB free and a snapshot may take %lld: make room, or remove "
		       "other snapshots",
		       folder, left, need);
}

static bool has_memory(const struct snapshot_spec *spec, struct err *err)
{
	long long need = 2LL * spec->memory_mib + limit_least(LIMIT_MEMORY);
	long long left = limit_left(LIMIT_MEMORY, NULL);

	return left < 0 || left >= need ||
	       err_set(err, ERR_LIMIT,
		       "saving the machine may take %lld MiB of memory for a while and %lld are "
		       "left: end other programs",
		       need, left);
}

static short ending_wants(const void *self)
{
	(void)self;
	return POLLIN;
}

/* Whether it has ended is asked by who waits in the loop. */
static void ending_ready(void *self, short events)
{
	(void)self;
	(void)events;
}

static bool ended(const void *arg)
{
	return process_ended((struct process *)arg, NULL);
}

/* A new file that reads like another, without the pages of zeros. A program does it, for it takes a
 * while, and callers of the machine are not to wait. keep: a descriptor that it needs, or -1. */
static bool copy_file(
	struct loop *loop, const char *from, int keep, const char *to, struct err *err)
{
	const char *argv[] = { "cp", "--reflink=auto", "--sparse=always", "--", from, to, NULL };
	const struct process_spec spec = {
		.argv = argv, .stdio = { -1, -1, -1 }, .keep = (const int[]){ keep, -1 }
	};
	CLEAN(process) struct process *cp = NULL;
	struct source ending = { .wants = ending_wants, .ready = ending_ready };
	int status = -1;
	bool ok;

	if (!file_write_private(to, "", 0, err))
		return false;
	cp = process_start(&spec, err);
	if (!cp)
		return false;
	ending.fd = process_fd(cp);
	loop_add(loop, &ending);
	ok = loop_until(loop, ended, cp, clock_in(FILE_MS), err) || err_in(err, "writing %s", to);
	loop_remove(loop, &ending);
	(void)process_ended(cp, &status);
	return ok &&
	       (status == 0 || err_set(err, ERR_SYSTEM,
				       "%s can't be written: see that the host's disk has room "
				       "and is sound",
				       to));
}

static int64_t pass_ms(const struct taking *t)
{
	return (int64_t)PASS_MS * (1 + t->spec->memory_mib / 1024);
}

/* A guest that can't freeze its disk is saved all the same: memory and disk are of one moment. */
static bool prepare(const struct taking *t, struct err *err)
{
	const uint32_t freeze_ms =
		(uint32_t)(FREEZE_MS * accel_time_factor(machine_accel(t->spec->machine)));
	struct session *s = machine_session(t->spec->machine);

	return !t->spec->overlay ||
	       session_prepare(s, freeze_ms, clock_in(freeze_ms + ANSWER_MS), err) ||
	       (err->code == ERR_PEER && session_is_open(s));
}

/* When QEMU has told all of it, it has given up its disk: then all of that is in its file. */
static bool copy_out(const struct taking *t, struct err *err)
{
	const struct snapshot_spec *spec = t->spec;
	CLEAN(str) char *disk = folder_file(t->folder, ID, "qcow2");
	int64_t max = (2LL * spec->memory_mib + SPARE_MIB) * MIB;

	return machine_copy_out(spec->machine, t->stream, max, limit(t, pass_ms(t)), err) &&
	       (!spec->overlay || copy_file(t->loop, spec->overlay, -1, disk, err));
}

static bool pause_and_copy(struct taking *t, struct err *err)
{
	struct machine *m = t->spec->machine;
	bool ok = prepare(t, err);
	int64_t began = clock_ms();
	struct err later = { 0 };

	if (ok) {
		ok = machine_stop(m, err) && copy_out(t, err);
		t->stands_still = !machine_cont(m, &later);
		t->taken.paused_ms = clock_ms() - began;
	}
	if (t->stands_still)
		return err_set(err, later.code, "the machine can't go on: %s", later.text);
	/* What it does not take is done by itself later: the freeze ends, and the clock is late. */
	(void)machine_heal(m, limit(t, HEAL_MS), &later);
	return ok;
}

/* Its disk is never looked at, and it never runs. */
static bool copy_in(struct taking *t, struct err *err)
{
	const struct snapshot_spec *spec = t->spec;
	CLEAN(str) char *scratch = folder_file(t->folder, "scratch", "qcow2");
	const struct machine_spec copy = { .image = spec->image,
		.overlay = spec->overlay ? scratch : NULL,
		.memory_mib = spec->memory_mib,
		.memory = MEMORY_EMPTY,
		.memory_fd = t->memory };
	bool ok;

	if (copy.overlay && !overlay_create(scratch, spec->image->disk, err))
		return false;
	t->copy = machine_start_on(t->loop, &copy, machine_accel(spec->machine), err);
	ok = t->copy && machine_copy_in(t->copy, t->stream, limit(t, pass_ms(t)), err);
	fd_close(&t->stream);
	if (copy.overlay)
		(void)unlink(copy.overlay);
	return ok;
}

static bool write_manifest(const struct taking *t, struct err *err)
{
	CLEAN(json) struct json *manifest = json_object();
	char made[CLOCK_STAMP];

	clock_stamp(made);
	json_set_str(manifest, "id", ID);
	json_set_str(manifest, "made", made);
	json_set_str(manifest, "image", t->spec->image->name);
	json_set_int(manifest, "memory_mib", t->spec->memory_mib);
	json_set_str(manifest, "below", t->spec->below);
	json_set(manifest, "key", json_copy(t->spec->key));
	return folder_write_manifest(t->folder, manifest, err);
}

static bool sync_files(const struct taking *t, struct err *err)
{
	for (size_t i = 0; i < FOLDER_KINDS; i++) {
		CLEAN(str) char *file = folder_file(t->folder, ID, folder_kinds[i]);

		if (file_exists(file) && !pages_sync(file, err))
			return false;
	}
	return true;
}

/* The other QEMU must be gone before anybody starts from its memory. */
static bool keep(struct taking *t, struct err *err)
{
	CLEAN(str) char *given = xasprintf("/proc/self/fd/%d", t->memory);
	CLEAN(str) char *memory = folder_file(t->folder, ID, "memory");
	CLEAN(str) char *state_file = folder_file(t->folder, ID, "state");
	CLEAN(buf) struct buf state = { 0 };

	if (!machine_save(t->copy, &state, limit(t, PASS_MS), err))
		return false;
	machine_free(t->copy);
	t->copy = NULL;
	return copy_file(t->loop, given, t->memory, memory, err) &&
	       file_write_private(state_file, state.data, state.len, err) && sync_files(t, err) &&
	       write_manifest(t, err);
}

/* Has what is running out of room become the reason of a failure? */
static void blame_room(const char *folder, struct err *err)
{
	long long left = limit_left(LIMIT_DISK, folder);

	if (err->code != ERR_INTERRUPTED && left >= 0 && left < FULL_MIB)
		err_set(err, ERR_LIMIT,
			"the host's disk is full, so there is no snapshot: make room for %s",
			folder);
}

static bool take(struct taking *t, struct err *err)
{
	struct folder_use use;

	/* On disk that would take several times as long. */
	t->stream = fd_in_memory(0, err);
	t->memory = t->stream < 0 ? -1 : fd_in_memory(t->spec->memory_mib * MIB, err);
	if (t->memory < 0 || !pause_and_copy(t, err) || !copy_in(t, err) || !keep(t, err) ||
		!folder_measure(t->folder, ID, &use, err))
		return false;
	t->taken.bytes = use.bytes;
	return true;
}

bool snapshot_take(struct loop *loop, const struct snapshot_spec *spec, const char *folder,
	struct snapshot_taken *ret_taken, bool *ret_stands_still, struct err *err)
{
	CLEAN(folder) struct folder *f = folder_at(folder);
	CLEAN(taking)
	struct taking t = { .loop = loop, .spec = spec, .folder = f, .stream = -1, .memory = -1 };
	struct err ignored;

	*ret_stands_still = false;
	if (!has_room(spec, folder, err) || !has_memory(spec, err))
		return false;
	if (mkdir(folder, 0700) < 0)
		return err_errno(err, "%s", folder);
	if (take(&t, err)) {
		*ret_taken = t.taken;
		return true;
	}
	*ret_stands_still = t.stands_still;
	if (!t.stands_still)
		blame_room(folder, err);
	(void)dir_remove(folder, &ignored);
	return false;
}

static bool can_start(const struct folder *f, const char *below, struct template *t,
	enum accel accel, struct err *err)
{
	CLEAN(json) struct json *key = template_key(t->image, t->memory_mib, accel, NULL);
	const char *why = template_check(f, key, t);
	CLEAN(str) char *reason = why ? template_reason(why) : NULL;

	if (why)
		return err_set(err, ERR_INPUT, "%s", reason);
	return !below || file_exists(below) ||
	       err_set(err, ERR_INPUT, "its disk stands on that of a template, which was removed");
}

/* Strings owned. */
struct opened {
	struct template template;
	char *below;
};

static void opened_clean(struct opened *o)
{
	template_release(&o->template);
	free(o->below);
}

static bool open_it(struct loop *loop, const char *folder, const struct image *image,
	struct opened *ret_opened, struct err *err)
{
	CLEAN(folder) struct folder *f = folder_at(folder);
	CLEAN(json) struct json *manifest = folder_manifest(f);
	const char *below = json_get_str(manifest, "below");
	struct opened *o = ret_opened;
	enum accel accel;
	const char *why;

	o->template.image = image;
	o->template.memory_mib = (int)json_get_int(manifest, "memory_mib", 0);
	o->below = below ? xstrdup(below) : NULL;
	return accel_choose(loop, &accel, &why, err) &&
	       can_start(f, below, &o->template, accel, err);
}

bool snapshot_fits(
	struct loop *loop, const char *folder, const struct image *image, struct err *err)
{
	CLEAN(opened) struct opened o = { 0 };

	return open_it(loop, folder, image, &o, err);
}

bool snapshot_open(struct loop *loop, const char *folder, const struct image *image,
	struct template *ret_template, char **ret_below, struct err *err)
{
	CLEAN(opened) struct opened o = { 0 };

	if (!open_it(loop, folder, image, &o, err))
		return err_in(err, "no machine can be started from this snapshot any more");
	*ret_template = o.template;
	*ret_below = o.below;
	o = (struct opened){ 0 };
	return true;
}

bool snapshot_copy_disk(
	struct loop *loop, const struct template *t, const char *overlay, struct err *err)
{
	return !t->disk || copy_file(loop, t->disk, -1, overlay, err);
}

struct json *snapshot_describe(const char *folder)
{
	static const char *const told[] = { "made", "image", "memory_mib", "below" };
	CLEAN(folder) struct folder *f = folder_at(folder);
	CLEAN(json) struct json *manifest = folder_manifest(f);
	struct folder_use use;
	struct json *j;
	struct err err;

	if (!manifest || !folder_measure(f, ID, &use, &err))
		return NULL;
	j = json_object();
	for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++)
		if (json_get(manifest, told[i]))
			json_set(j, told[i], json_copy(json_get(manifest, told[i])));
	json_set_int(j, "bytes", use.bytes);
	return j;
}

bool snapshot_link(const char *from, const char *to, struct err *err)
{
	CLEAN(folder) struct folder *old = folder_at(from), *new = folder_at(to);
	CLEAN(json) struct json *manifest = folder_manifest(old);

	if (!manifest)
		return err_set(err, ERR_INPUT, "there is no whole snapshot in %s", from);
	if (mkdir(to, 0700) < 0)
		return err_errno(err, "%s", to);
	for (size_t i = 0; i < FOLDER_KINDS; i++) {
		CLEAN(str) char *source = folder_file(old, ID, folder_kinds[i]);
		CLEAN(str) char *target = folder_file(new, ID, folder_kinds[i]);

		if (link(source, target) < 0 && (errno != ENOENT || file_exists(source)))
			return err_errno(err, "%s", target);
	}
	return folder_write_manifest(new, manifest, err);
}
