/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of a keeper. */
#include "kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "control.h"
#include "machine/preflight.h"
#include "machine/start.h"
#include "machine/template_key.h"
#include "snapshots.h"

int kept_memory(const struct kept *k)
{
	return k->spec->memory_mib ? k->spec->memory_mib : k->image.memory_mib;
}

void kept_end(struct kept *k)
{
	if (k->board)
		switchboard_serve(k->board, NULL);
	watch_end(&k->watch);
	machine_free(k->machine);
	k->machine = NULL;
}

/* Callers for a machine that has started. */
static void serve(struct kept *k)
{
	json_free(k->key);
	k->key = template_key(&k->image, kept_memory(k), machine_accel(k->machine), NULL);
	k->since = clock_ms();
	k->away = false;
	watch_begin(&k->watch, k->loop, k->machine);
	switchboard_serve(k->board, machine_session(k->machine));
}

static bool open_image(struct kept *k, struct err *err)
{
	image_release(&k->image);
	return image_open(k->spec->image, &k->image, err);
}

/* A new machine of the image as it is now. */
static bool begin(struct kept *k, struct err *err)
{
	const struct start_spec spec = { .image = &k->image,
		.overlay = k->overlay,
		.console_log = k->console,
		.memory_mib = k->spec->memory_mib,
		.notice = k->notice,
		.self = k->self,
		.ret_below = &k->below };
	CLEAN(str) char *cold = NULL;
	CLEAN(str) char *text = NULL;

	if (!open_image(k, err))
		return false;
	(void)unlink(k->overlay);
	k->machine = machine_begin(k->loop, &spec, &cold, err);
	if (!k->machine)
		return false;
	if (cold) {
		text = xasprintf("the machine was booted, not started from a template: %s", cold);
		k->notice(k->self, text);
	}
	serve(k);
	return true;
}

/* What can fail without the machine that runs is done before that one is ended. */
static bool go_back(struct kept *k, const struct template *t, struct err *err)
{
	CLEAN(str) char *disk = xasprintf("%s.new", k->overlay);

	if (!limits_suffice(k->place->path, err) || !snapshot_copy_disk(t, disk, err)) {
		(void)unlink(disk);
		return false;
	}
	kept_end(k);
	if (t->disk && rename(disk, k->overlay) < 0)
		return err_errno(err, "%s", k->overlay);
	k->machine = snapshot_start(k->loop, t, k->overlay, k->console, err);
	if (k->machine)
		serve(k);
	return k->machine;
}

/* The machine as it was at a snapshot; NULL: the newest. */
static bool begin_saved(struct kept *k, const char *snapshot, char **ret_name, struct err *err)
{
	CLEAN(str) char *folder = snapshots_find(k->place->name, snapshot, ret_name, err);
	CLEAN(template) struct template t = { 0 };
	CLEAN(str) char *below = NULL;

	if (!folder || !snapshot_open(k->loop, folder, &k->image, &t, &below, err) ||
		!go_back(k, &t, err))
		return false;
	free(k->below);
	k->below = str_take(&below);
	return true;
}

/* The other machine is saved into our folder, which must not be removed meanwhile: so its keeper is
 * waited for, also when we are to end. */
static bool fetch(struct kept *k, struct err *err)
{
	CLEAN(str) char *line = xasprintf("fork %s", k->spec->name);
	CLEAN(json) struct json *done = NULL;
	const int64_t end = clock_in(CONTROL_LONG_MS);
	bool interrupted = false;
	struct question q;

	if (!question_put(&q, k->loop, k->spec->from, line, err))
		return false;
	while (!loop_until(k->loop, question_is_over, &q, end, err) &&
		err->code == ERR_INTERRUPTED) {
		k->loop->interrupted = false;
		interrupted = true;
	}
	k->loop->interrupted = k->loop->interrupted || interrupted;
	done = question_end(&q, err);
	return done;
}

/* What a fork begins from comes into its own folder first. */
static bool begin_fork(struct kept *k, struct err *err)
{
	const struct keeper_spec *spec = k->spec;
	CLEAN(str) char *name = NULL;
	bool ok = open_image(k, err);

	if (ok)
		ok = spec->snapshot ? snapshots_share(spec->from, spec->snapshot, spec->name, err)
				    : fetch(k, err);
	return ok && begin_saved(k, NULL, &name, err);
}

bool kept_begin(struct kept *k, struct err *err)
{
	k->overlay = xasprintf("%s/disk.qcow2", k->place->path);
	k->console = xasprintf("%s/console.log", k->place->path);
	return k->spec->from ? begin_fork(k, err) : begin(k, err);
}

/* What is said to a closed port is read by nobody, and lost when it opens again. Who is behind it
 * then has to greet first: until he does, the session stands as with the one before. */
void kept_look(struct kept *k)
{
	struct session *s = machine_session(k->machine);

	if (machine_port_closed(k->machine)) {
		/* Counted once: that it is open again may be told after its first greeting. */
		if (!k->away) {
			k->greetings = session_greetings(s);
			switchboard_serve(k->board, NULL);
		}
		k->away = true;
	} else if (k->away && session_is_open(s) && session_greetings(s) != k->greetings) {
		k->away = false;
		switchboard_serve(k->board, s);
	}
}

bool kept_reset(struct kept *k, const char *name, struct json *done, struct err *err)
{
	(void)name;
	(void)done;
	kept_end(k);
	return begin(k, err);
}

bool kept_restore(struct kept *k, const char *name, struct json *done, struct err *err)
{
	CLEAN(str) char *snapshot = NULL;

	if (!begin_saved(k, name, &snapshot, err))
		return false;
	json_set_str(done, "name", snapshot);
	return true;
}

/* Its state may go to another QEMU: which must be the same as when it was started. */
static bool may_save(const struct kept *k, struct err *err)
{
	CLEAN(json)
	struct json *key = template_key(&k->image, kept_memory(k), machine_accel(k->machine), NULL);
	const char *differs = template_key_differs(key, k->key);

	if (k->away || !session_is_open(machine_session(k->machine)))
		return err_set(err, ERR_PEER,
			"the machine %s is restarting: wait until postern ls shows that it is up",
			k->place->name);
	return !differs ||
	       err_set(err, ERR_INPUT,
		       "the machine %s can't be saved, for the %s of new machines changed since it "
		       "started: postern reset %s makes it one of them",
		       k->place->name, differs, k->place->name);
}

static bool save(struct kept *k, const char *machine, const char *snapshot, struct json *done,
	struct err *err)
{
	const struct snapshot_spec spec = { .machine = k->machine,
		.image = &k->image,
		.key = k->key,
		.overlay = k->image.disk ? k->overlay : NULL,
		.below = k->image.disk ? k->below : NULL,
		.memory_mib = kept_memory(k) };
	CLEAN(str) char *name = NULL;
	struct snapshot_taken taken = { 0 };
	int64_t began = clock_ms();
	bool ok = may_save(k, err) &&
		  snapshots_take(k->loop, &spec, machine, snapshot, &name, &taken, err);

	k->stands_still = taken.stands_still;
	if (!ok)
		return false;
	json_set_str(done, "name", name);
	json_set_int(done, "bytes", taken.bytes);
	json_set_int(done, "took_ms", clock_ms() - began);
	json_set_int(done, "paused_ms", taken.paused_ms);
	return true;
}

bool kept_snapshot(struct kept *k, const char *name, struct json *done, struct err *err)
{
	return save(k, k->place->name, name, done, err);
}

/* Into the folder of another machine, which waits for it. */
bool kept_fork(struct kept *k, const char *name, struct json *done, struct err *err)
{
	return save(k, name, SNAPSHOT_OF_FORK, done, err);
}

bool kept_forget(struct kept *k, const char *name, struct json *done, struct err *err)
{
	CLEAN(str) char *found = NULL;
	CLEAN(str) char *folder = snapshots_find(k->place->name, name, &found, err);

	(void)done;
	return folder && snapshot_remove(folder, err);
}

void kept_describe(const struct kept *k, struct json *j)
{
	const char *fault = machine_host_fault(k->machine);

	if (session_is_open(machine_session(k->machine)) && !k->away) {
		json_set_str(j, "state", "up");
		json_set_str(j, "why", fault);
	} else {
		CLEAN(str) char *story = machine_story(k->machine);

		json_set_str(j, "state", "restarting");
		json_set_str(j, "why", story);
	}
	json_set_int(j, "uptime_s", (clock_ms() - k->since) / 1000);
	json_set_int(j, "operations", switchboard_operations(k->board));
	json_set_int(j, "callers", switchboard_callers(k->board));
	json_set_int(j, "boot_ms", machine_boot_ms(k->machine));
	json_set_int(j, "time_factor", accel_time_factor(machine_accel(k->machine)));
}
