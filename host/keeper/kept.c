/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of a keeper. */
#include "kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "control.h"
#include "machine/preflight.h"
#include "machine/start.h"
#include "machine/template_key.h"
#include "snapshots.h"

#define THAW_MS	 2000  /* it is tried again */
#define LEAVE_MS 10000 /* that an interrupted fork waits on */

int kept_memory(const struct kept *k)
{
	return k->spec->memory_mib ? k->spec->memory_mib : k->image.memory_mib;
}

void kept_end(struct kept *k)
{
	if (k->board)
		switchboard_serve(k->board, NULL);
	loop_remove(k->loop, &k->look);
	watch_end(&k->watch);
	machine_free(k->machine);
	k->machine = NULL;
}

/* What is said to a closed port is read by nobody, and lost when it opens again. Who is behind it
 * then has to greet first: until he does, the session stands as with the one before. */
static bool is_back(const struct kept *k)
{
	const struct session *s = machine_session(k->machine);

	return !machine_port_closed(k->machine) && session_is_open(s) &&
	       session_greetings(s) != k->greetings;
}

static int64_t look_due(const void *self)
{
	const struct kept *k = self;
	bool now = k->away ? is_back(k) : machine_port_closed(k->machine);

	return now ? clock_ms() : CLOCK_NEVER;
}

/* Callers reach the guest that is there, and wait while there is none. Greetings are counted as it
 * goes: that the port is open again may be told after the first one. */
static void look(void *self, short events)
{
	struct kept *k = self;
	struct session *s = machine_session(k->machine);

	(void)events;
	if (!k->away)
		k->greetings = session_greetings(s);
	k->away = !k->away;
	switchboard_serve(k->board, k->away ? NULL : s);
}

/* Callers for a machine that has started. */
static void serve(struct kept *k)
{
	json_free(k->key);
	k->key = template_key(&k->image, kept_memory(k), machine_accel(k->machine), NULL);
	k->since = clock_ms();
	k->away = false;
	k->look = (struct source){ .fd = -1, .due = look_due, .ready = look, .self = k };
	loop_add(k->loop, &k->look);
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

	if (!limits_suffice(k->place->path, err) || !snapshot_copy_disk(k->loop, t, disk, err)) {
		(void)unlink(disk);
		return false;
	}
	kept_end(k);
	if (t->disk && rename(disk, k->overlay) < 0)
		return err_errno(err, "%s", k->overlay);
	k->machine = template_clone(k->loop, t, t->disk ? k->overlay : NULL, k->console, err);
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

/* The other machine is saved into our folder. When we are to end its keeper is waited for a little,
 * so that it finds the folder; where it does not, it fails, and goes on. */
static bool fetch(struct kept *k, struct err *err)
{
	CLEAN(str) char *line = xasprintf("fork %s", k->spec->name);
	CLEAN(json) struct json *done = NULL;
	int64_t end = clock_in(CONTROL_LONG_MS);
	bool interrupted = false;
	struct question q;

	if (!question_put(&q, k->loop, k->spec->from, line, k->notice, k->self, err))
		return false;
	while (!loop_until(k->loop, question_is_over, &q, end, err) &&
		err->code == ERR_INTERRUPTED) {
		k->loop->interrupted = false;
		interrupted = true;
		end = clock_in(LEAVE_MS);
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

bool kept_is_frozen(const struct kept *k)
{
	return session_is_frozen(machine_session(k->machine));
}

void kept_thaw(struct kept *k)
{
	struct err ignored;

	(void)machine_heal(k->machine, clock_in(THAW_MS), &ignored);
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
	const char *fault = machine_host_fault(k->machine);

	if (k->image.disk && !file_exists(k->below))
		return err_set(err, ERR_INPUT,
			"the machine %s can't be saved, for its disk stands on that of a template, "
			"which was removed: postern reset %s makes it new",
			k->place->name, k->place->name);
	if (fault)
		return err_set(
			err, ERR_PEER, "the machine %s stands still: %s", k->place->name, fault);
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

	if (!may_save(k, err))
		return false;
	k->notice(k->self, "saving the machine with its memory");
	if (!snapshots_take(
		    k->loop, &spec, machine, snapshot, &name, &taken, &k->stands_still, err))
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
	(void)done;
	return snapshots_remove(k->place->name, name, err);
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
