/* SPDX-License-Identifier: Apache-2.0 */
/* From a cold boot to the files of a template. */
#include "template_make.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"

#define WARM_MS	   20000  /* times the factor: for all warm-up commands */
#define FREEZE_MS  600000 /* of a clone's life that is not its own: it is healed before */
#define SAVE_MS	   60000
#define LOOK_MS	   200	/* between two looks at how busy the guest is */
#define SETTLE_MS  8000 /* times the factor: a guest that is never idle is saved busy */
#define IDLE_MS	   10	/* of processor time in LOOK_MS: that is idle */
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

static struct machine *boot(struct loop *loop, const struct machine_spec *spec, enum accel accel,
	bool *ret_boots, struct err *err)
{
	struct machine *m = machine_start_on(loop, spec, accel, err);

	if (m && machine_wait_ready(m, clock_in(machine_boot_ms(m)), err))
		return m;
	machine_free(m);
	*ret_boots = false;
	return NULL;
}

static bool warm_and_save(struct loop *loop, struct machine *m, const struct image *image,
	const char *state, struct err *err)
{
	const int factor = accel_time_factor(machine_accel(m));
	int64_t end;

	if (!machine_prove_sealed(m, err) ||
		!run_warm_up(m, clock_in((int64_t)WARM_MS * factor), err) ||
		!settle(loop, m, clock_in((int64_t)SETTLE_MS * factor), err))
		return false;
	end = clock_in((int64_t)SAVE_MS * factor);
	if (image->disk && !session_prepare(machine_session(m), FREEZE_MS, end, err))
		return false;
	return save(m, state, end, err);
}

/* Not in its file from the beginning: a file system that writes dirty pages back slows the guest.
 */
static int make_memory(const struct image *image, struct err *err)
{
	int fd = memfd_create("postern-template", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)image->memory_mib << 20) < 0) {
		err_errno(err, "memory for a template");
		fd_close(&fd);
	}
	return fd;
}

bool template_make(struct loop *loop, const struct image *image, enum accel accel,
	const struct template_files *files, char ret_memory_hash[PAGES_HASH], bool *ret_boots,
	struct err *err)
{
	CLEAN(fd) int fd = make_memory(image, err);
	const struct machine_spec spec = {
		.image = image, .overlay = files->disk, .memory = MEMORY_SHARED, .memory_fd = fd
	};
	struct machine *m;
	bool ok;

	if (fd < 0 || (files->disk && !overlay_create(files->disk, image->disk, err)))
		return false;
	m = boot(loop, &spec, accel, ret_boots, err);
	ok = m && warm_and_save(loop, m, image, files->state, err);
	/* A template that ran on would change the memory of its clones. */
	machine_free(m);
	ok = ok && pages_copy(fd, files->memory, ret_memory_hash, err);
	if (ok && files->disk && chmod(files->disk, 0400) < 0)
		return err_errno(err, "%s", files->disk);
	return ok;
}
