/* SPDX-License-Identifier: Apache-2.0 */
/* From a machine that is up to the files of a template. */
#include "template_make.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "template_folder.h"

#define WARM_MS	   20000  /* times the factor: for all warm-up commands */
#define FREEZE_MS  600000 /* of a clone's life that is not its own: it is healed before */
#define SAVE_MS	   60000
#define WAKE_MS	   10000 /* times the factor; it takes some tens of milliseconds */
#define LOOK_MS	   200	 /* between two looks at how busy the guest is */
#define SETTLE_MS  8000	 /* times the factor: a guest that is never idle is saved busy */
#define IDLE_MS	   10	 /* of processor time in LOOK_MS: that is idle */
#define IDLE_LOOKS 3

/* What agents, checks and models run first: its pages are then in the guest's memory. */
static const char *const warm_up[] = {
	"for f in /bin/sh /bin/cat /bin/ls; do cat $f >/dev/null; done; ls -l / >/dev/null",
	"command -v curl >/dev/null && curl -s -o /dev/null http://127.0.0.1/; true", NULL
};

static bool run_warm_up(struct machine *m, int64_t deadline, struct err *err)
{
	struct command_result result;

	for (const char *const *script = warm_up; *script; script++) {
		const char *argv[] = { "sh", "-c", *script, NULL };
		const struct command_spec spec = { .argv = argv, .env = machine_env };

		if (!command_run(machine_session(m), &spec, deadline, &result, err))
			return false;
	}
	return true;
}

/* A guest that is saved while it still works takes that work along into each clone. */
static bool settle(struct loop *loop, struct machine *m, int64_t deadline, struct err *err)
{
	int64_t before = machine_cpu_ms(m);
	int idle = 0;

	while (idle < IDLE_LOOKS && clock_ms() < deadline) {
		int64_t now;

		if (!loop_pause(loop, LOOK_MS, err))
			return false;
		now = machine_cpu_ms(m);
		idle = now - before <= IDLE_MS ? idle + 1 : 0;
		before = now;
	}
	return true;
}

static bool save(struct machine *m, const char *path, int64_t deadline, struct err *err)
{
	CLEAN(buf) struct buf state = { 0 };

	return machine_stop(m, err) && machine_save(m, &state, deadline, err) &&
	       file_write_private(path, state.data, state.len, err);
}

static struct machine *boot(struct loop *loop, const struct template_plan *plan,
	const struct machine_spec *spec, bool *ret_avoidable, struct err *err)
{
	struct machine *m = machine_start_on(loop, spec, plan->accel, err);

	if (m && machine_wait_ready(m, clock_in(machine_boot_ms(m)), err)) {
		int64_t limit = (int64_t)WARM_MS * accel_time_factor(plan->accel);

		if (machine_prove_sealed(m, err) && run_warm_up(m, clock_in(limit), err))
			return m;
	} else {
		*ret_avoidable = false;
	}
	machine_free(m);
	return NULL;
}

bool template_wake(struct machine *m, const struct template *t, struct err *err)
{
	int64_t end = clock_in((int64_t)WAKE_MS * accel_time_factor(machine_accel(m)));

	if (machine_wake(m, &t->state, end, err))
		return true;
	if (t->folder && err->code != ERR_INTERRUPTED && err->code != ERR_DENIED)
		folder_drop_manifest(t->folder);
	return false;
}

static struct machine *go_on(struct loop *loop, const struct template_plan *plan,
	const struct machine_spec *spec, struct err *err)
{
	struct machine *m = machine_start_on(loop, spec, plan->accel, err);

	if (!m || template_wake(m, plan->base, err))
		return m;
	machine_free(m);
	return NULL;
}

static bool change(struct machine *m, const struct template_plan *plan, struct json **ret_said,
	bool *ret_avoidable, struct err *err)
{
	const struct template_change *c = plan->change;

	if (!c || c->apply(c->self, m, ret_said, err))
		return true;
	*ret_avoidable = false;
	return false;
}

static bool settle_and_save(struct loop *loop, struct machine *m, const struct template_plan *plan,
	const char *state, struct err *err)
{
	const int factor = accel_time_factor(plan->accel);
	int64_t end;

	if (!settle(loop, m, clock_in((int64_t)SETTLE_MS * factor), err))
		return false;
	end = clock_in((int64_t)SAVE_MS * factor);
	if (plan->image->disk && !session_prepare(machine_session(m), FREEZE_MS, end, err))
		return false;
	return save(m, state, end, err);
}

/* A boot has its memory not in its file from the beginning: a file system that writes dirty pages
 * back slows the guest. What goes on from a template changes little of it. */
static int make_memory(
	const struct template_plan *plan, const struct template_files *files, struct err *err)
{
	int fd = -1;

	if (!plan->base) {
		fd = fd_in_memory((long long)plan->memory_mib << 20, err);
	} else if (pages_clone(plan->base->memory, files->memory, err)) {
		fd = open(files->memory, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			err_errno(err, "%s", files->memory);
	}
	return fd;
}

static bool make_disk(
	const struct template_plan *plan, const struct template_files *files, struct err *err)
{
	const char *under = plan->base ? plan->base->disk : plan->image->disk;

	return !files->disk || overlay_create(files->disk, under, err);
}

bool template_make(struct loop *loop, const struct template_plan *plan,
	const struct template_files *files, struct template_made *ret_made, bool *ret_avoidable,
	struct err *err)
{
	CLEAN(fd) int fd = make_memory(plan, files, err);
	const struct machine_spec spec = { .image = plan->image,
		.overlay = files->disk,
		.memory_mib = plan->memory_mib,
		.memory = plan->base ? MEMORY_COPY : MEMORY_SHARED,
		.memory_fd = fd };
	struct machine *m;
	bool ok;

	if (fd < 0 || !make_disk(plan, files, err))
		return false;
	m = plan->base ? go_on(loop, plan, &spec, err)
		       : boot(loop, plan, &spec, ret_avoidable, err);
	ok = m && change(m, plan, &ret_made->said, ret_avoidable, err) &&
	     settle_and_save(loop, m, plan, files->state, err);
	/* A template that ran on would change the memory of its clones. */
	machine_free(m);
	ok = ok && (plan->base || pages_copy(fd, files->memory, ret_made->memory_hash, err));
	if (ok && files->disk && chmod(files->disk, 0400) < 0)
		return err_errno(err, "%s", files->disk);
	return ok;
}
