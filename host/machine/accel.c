/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which accelerator runs guests here.
 *
 * Without a usable /dev/kvm the answer is at hand. With one, the mini image is booted under KVM
 * once; the answer is kept in accel.json under a key that changes with the host's boot, processor
 * and QEMU.
 */
#include "accel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "base/xalloc.h"
#include "machine.h"
#include "qemu.h"

#define KVM_DEVICE	"/dev/kvm"
#define PROBE_MS	5000
#define FACTOR_EMULATED 5
#define MEMORY_MAX	4096

struct verdict {
	enum accel accel;
	const char *why;
	const char *remedy;
};

static const struct verdict absent = { ACCEL_TCG, "there is no /dev/kvm, so guests are emulated",
	"enable virtualisation on this host" };
static const struct verdict closed = { ACCEL_TCG,
	"/dev/kvm can't be opened, so guests are emulated", "add this user to the group kvm" };
static const struct verdict untried = { ACCEL_TCG,
	"KVM was not tried for want of the mini image, so guests are emulated",
	"build that image with `make images`" };
static const struct verdict hangs = { ACCEL_TCG,
	"/dev/kvm opens but does not boot the mini image, so guests are emulated", NULL };
static const struct verdict works = { ACCEL_KVM, "KVM has booted the mini image", NULL };

const char *accel_name(enum accel accel)
{
	return accel == ACCEL_KVM ? "kvm" : "tcg";
}

int accel_time_factor(enum accel accel)
{
	return accel == ACCEL_KVM ? 1 : FACTOR_EMULATED;
}

/* Adds the first line of a file of the kernel's that has this in it. */
static void add_line_with(struct buf *key, const char *path, const char *start)
{
	FILE *f = fopen(path, "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, start, strlen(start))) {
			buf_add(key, line, strcspn(line, "\n"));
			break;
		}
	if (f)
		(void)fclose(f);
	buf_str(key, ";");
}

static char *host_key(void)
{
	CLEAN(buf) struct buf key = { 0 };
	CLEAN(str) char *qemu = process_find(QEMU_PROGRAM);
	struct stat st = { 0 };

	add_line_with(&key, "/proc/sys/kernel/random/boot_id", "");
	add_line_with(&key, "/proc/cpuinfo", "model name");
	if (qemu && stat(qemu, &st) == 0)
		buf_printf(&key, "%s %lld %lld", qemu, (long long)st.st_size,
			(long long)st.st_mtim.tv_sec);
	return buf_take(&key);
}

static const struct verdict *recall(const char *file, const char *key)
{
	struct err err;
	CLEAN(json) struct json *j = json_parse_file(file, MEMORY_MAX, &err);
	const char *host = json_get_str(j, "host");

	if (!host || strcmp(host, key) != 0)
		return NULL;
	return json_get_bool(j, "kvm_works", false) ? &works : &hangs;
}

/* A memory that can't be written costs the next start a probe, nothing else. */
static void remember(const char *file, const char *key, bool kvm_works)
{
	CLEAN(json) struct json *j = json_object();
	CLEAN(str) char *text = NULL;
	struct err err;

	json_set_str(j, "host", key);
	json_set_bool(j, "kvm_works", kvm_works);
	text = json_line(j);
	(void)file_write(file, text, strlen(text), &err);
}

static bool boots(struct loop *loop, const struct image *mini, struct err *err)
{
	const struct machine_spec spec = { .image = mini };
	struct machine *m = machine_start_on(loop, &spec, ACCEL_KVM, err);
	bool up = m && machine_wait_hello(m, clock_in(PROBE_MS), err);

	machine_free(m);
	return up;
}

static bool probe(struct loop *loop, const struct verdict **ret_verdict, struct err *err)
{
	CLEAN(image) struct image mini = { 0 };
	CLEAN(str) char *file = home_path("accel.json");
	CLEAN(str) char *key = host_key();
	const struct verdict *known = recall(file, key);
	bool up;

	if (!known && !image_open("mini", &mini, err))
		known = &untried;
	if (!known) {
		up = boots(loop, &mini, err);
		if (!up && err->code == ERR_INTERRUPTED)
			return false;
		remember(file, key, up);
		known = up ? &works : &hangs;
	}
	*ret_verdict = known;
	return true;
}

bool accel_choose(struct loop *loop, enum accel *ret_accel, const char **ret_why, struct err *err)
{
	CLEAN(fd) int fd = open(KVM_DEVICE, O_RDWR | O_CLOEXEC);
	const struct verdict *verdict = errno == ENOENT ? &absent : &closed;

	if (fd >= 0 && !probe(loop, &verdict, err))
		return false;
	*ret_accel = verdict->accel;
	*ret_why = verdict->why;
	return true;
}

const char *accel_remedy(const char *why)
{
	static const struct verdict *const all[] = { &absent, &closed, &untried, &hangs, &works,
		NULL };

	for (const struct verdict *const *v = all; *v; v++)
		if ((*v)->why == why)
			return (*v)->remedy;
	return NULL;
}
