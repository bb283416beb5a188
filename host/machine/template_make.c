/* SPDX-License-Identifier: Apache-2.0 */
/* From a cold boot to the files of a template. */
#include "template_make.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"

#define BOOT_MS	   60000  /* times the accelerator's factor */
#define WARM_MS	   20000  /* times the factor: for all warm-up commands */
#define FREEZE_MS  600000 /* of a clone's life that is not its own: it is healed before */
#define SAVE_MS	   60000
#define LOOK_MS	   200	/* between two looks at how busy the guest is */
#define SETTLE_MS  8000 /* times the factor: a guest that is never idle is saved busy */
#define IDLE_MS	   10	/* of processor time in LOOK_MS: that is idle */
#define IDLE_LOOKS 3

/* What agents, checks and models run first: its pages are then in the guest's memory. */
static const char *const warm_up[] = { "true",
	"for f in /bin/sh /bin/cat /bin/ls; do cat $f >/dev/null; done; ls -l / >/dev/null",
	"command -v curl >/dev/null && curl -s -o /dev/null http://127.0.0.1/; true",
	"command -v systemctl >/dev/null && systemctl is-system-running >/dev/null; true", NULL };

static bool run_warm_up(struct machine *m, int64_t deadline, struct err *err)
{
	static const char *const env[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
		NULL
	};
	struct command_result result;

	for (const char *const *script = warm_up; *script; script++) {
		const char *argv[] = { "sh", "-c", *script, NULL };
		const struct command_spec spec = { .argv = argv, .env = env };

		if (!command_run(machine_session(m), &spec, deadline, &result, err))
			return false;
	}
	return true;
}

static bool never(const void *arg)
{
	(void)arg;
	return false;
}

/* A guest that is saved while it still works takes that work along into each clone. */
static bool settle(struct loop *loop, struct machine *m, int64_t deadline, struct err *err)
{
	int64_t before = machine_cpu_ms(m);
	int idle = 0;

	while (idle < IDLE_LOOKS && clock_ms() < deadline) {
		int64_t now;

		if (!loop_until(loop, never, NULL, clock_in(LOOK_MS), err) && err->code != ERR_TIME)
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
	       file_write(path, state.data, state.len, err);
}

static bool boot_and_save(struct loop *loop, struct machine *m, const struct image *image,
	const char *state, struct err *err)
{
	const int factor = accel_time_factor(machine_accel(m));
	int64_t frozen = clock_in((int64_t)SAVE_MS * factor);
	bool sealed;

	if (!machine_wait_ready(m, clock_in((int64_t)BOOT_MS * factor), err) ||
		!machine_is_sealed(m, &sealed, err))
		return false;
	if (!sealed)
		return err_set(err, ERR_DENIED,
			"this QEMU gave the machine a device that it was not asked for");
	if (!run_warm_up(m, clock_in((int64_t)WARM_MS * factor), err) ||
		!settle(loop, m, clock_in((int64_t)SETTLE_MS * factor), err))
		return false;
	if (image->disk && !session_prepare(machine_session(m), FREEZE_MS, frozen, err))
		return false;
	return save(m, state, frozen, err);
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

/* Pages that the guest never touched stay holes. */
static bool copy_memory(int from, const char *path, struct err *err)
{
	CLEAN(fd) int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	off_t at = 0, end = lseek(from, 0, SEEK_END), data;

	if (to < 0 || ftruncate(to, end) < 0)
		return err_errno(err, "%s", path);
	while ((data = lseek(from, at, SEEK_DATA)) >= 0) {
		at = lseek(from, data, SEEK_HOLE);
		if (lseek(to, data, SEEK_SET) < 0)
			return err_errno(err, "%s", path);
		while (data < at)
			if (sendfile(to, from, &data, (size_t)(at - data)) <= 0)
				return err_errno(err, "%s", path);
	}
	return true;
}

bool template_make(struct loop *loop, const struct image *image, enum accel accel,
	const char *memory, const char *state, const char *disk, struct err *err)
{
	CLEAN(fd) int fd = make_memory(image, err);
	const struct machine_spec spec = {
		.image = image, .overlay = disk, .memory = MEMORY_SHARED, .memory_fd = fd
	};
	struct machine *m;
	bool ok;

	if (fd < 0 || (disk && !overlay_create(disk, image->disk, err)))
		return false;
	m = machine_start_on(loop, &spec, accel, err);
	ok = m && boot_and_save(loop, m, image, state, err);
	/* A template that ran on would change the memory of its clones. */
	machine_free(m);
	ok = ok && copy_memory(fd, memory, err);
	if (ok && disk && chmod(disk, 0444) < 0)
		return err_errno(err, "%s", disk);
	return ok;
}
