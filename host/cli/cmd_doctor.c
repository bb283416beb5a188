/* SPDX-License-Identifier: Apache-2.0 */
/* postern doctor: is all there that postern needs, and what to do where it is not? */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "base/xalloc.h"
#include "command.h"
#include "machine/accel.h"
#include "machine/confine.h"
#include "machine/image.h"
#include "machine/preflight.h"
#include "machine/qemu.h"

#define DISK_MIB   2048 /* an image, and the overlays of some machines */
#define MEMORY_MIB 1024 /* one server and what is around it */
#define VERSION_MS 20000

enum state { FINE, BETTER, MISSING };

static const char *const state_names[] = { "ok", "note", "MISSING" };

struct report {
	struct json *findings;
	bool missing;
};

/* remedy NULL: nothing to do. */
static void add(struct report *r, const char *what, enum state state, const char *remedy,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));

static void add(struct report *r, const char *what, enum state state, const char *remedy,
	const char *fmt, ...)
{
	struct json *j = json_add(r->findings, json_object());
	char found[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(found, sizeof(found), fmt, ap);
	va_end(ap);
	json_set_str(j, "what", what);
	json_set_str(j, "state", state_names[state]);
	json_set_str(j, "found", found);
	json_set_str(j, "remedy", remedy);
	r->missing = r->missing || state == MISSING;
}

/* A program is there when it tells its version. */
static void check_program(struct report *r, const char *name, const char *package)
{
	const char *argv[] = { name, "--version", NULL };
	CLEAN(str) char *path = process_find(name);
	CLEAN(str) char *remedy = xasprintf("install the package %s", package);
	CLEAN(buf) struct buf out = { 0 };
	struct err err;

	if (process_run(argv, package, VERSION_MS, &out, 4096, &err))
		add(r, name, FINE, NULL, "%.*s, %s", (int)strcspn(buf_text(&out), "\n"),
			buf_text(&out), path ? path : name);
	else
		add(r, name, MISSING, remedy, "%s", err.text);
}

static bool check_accel(struct report *r, struct err *err)
{
	enum accel accel;
	const char *why;
	struct loop loop;
	bool chosen = loop_init(&loop, true, err) && accel_choose(&loop, &accel, &why, err);

	loop_release(&loop);
	if (!chosen)
		return false;
	add(r, "accelerator", accel == ACCEL_KVM ? FINE : BETTER, accel_remedy(why), "%s: %s",
		accel_name(accel), why);
	return true;
}

/* What is missing of it is told, one by one. */
static void check_confinement(struct report *r)
{
	CLEAN(str) char *qemu = process_find(QEMU_PROGRAM);
	CLEAN(buf) struct buf kept = { 0 };
	struct confinement c;
	struct err err;

	if (!qemu)
		return;
	if (!confine_try(&c, &err)) {
		add(r, "confinement", MISSING, NULL, "%s", err.text);
		return;
	}
	for (enum measure i = 0; i < CONFINE_MEASURES; i++) {
		CLEAN(str) char *text = confinement_text(&c, i);

		if (c.why[i])
			add(r, "confinement", BETTER, confine_remedy(i), "%s", text);
		else
			buf_printf(&kept, "%s%s", kept.len ? ", " : "", confine_name(i));
	}
	if (kept.len)
		add(r, "confinement", FINE, NULL, "of QEMU: %s", buf_text(&kept));
}

static void check_disk(struct report *r)
{
	CLEAN(str) char *home = home_path("");
	CLEAN(str) char *folder = file_nearest(home);
	long long mib = limit_left(LIMIT_DISK, folder);

	if (access(folder, W_OK) < 0 || mib < 0) {
		add(r, "disk", MISSING, "point POSTERN_HOME to a folder that you may write to",
			"%s: %s", folder, strerror(errno));
		return;
	}
	add(r, "disk", mib >= DISK_MIB ? FINE : MISSING,
		mib >= DISK_MIB ? NULL : limit_remedy(LIMIT_DISK), "%lld MiB free in %s", mib,
		folder);
}

static void check_memory(struct report *r)
{
	long long mib = limit_left(LIMIT_MEMORY, NULL);

	add(r, "memory", mib >= MEMORY_MIB ? FINE : MISSING,
		mib >= MEMORY_MIB ? NULL : limit_remedy(LIMIT_MEMORY),
		"%lld MiB available, %d processors", mib, get_nprocs());
}

/* One that has no end is not told. */
static void check_limit(struct report *r, const char *what, enum limit limit)
{
	long long left = limit_left(limit, NULL);

	if (left >= 0)
		add(r, what, left < limit_least(limit) ? MISSING : FINE,
			left < limit_least(limit) ? limit_remedy(limit) : NULL,
			"%lld left, a machine takes up to %lld", left, limit_least(limit));
}

/* use: who needs it. */
static void check_image(struct report *r, const char *name, const char *use, enum state without)
{
	CLEAN(image) struct image image = { 0 };
	CLEAN(str) char *what = xasprintf("image %s", name);
	CLEAN(str) char *below = xasprintf("images/%s", name);
	CLEAN(str) char *folder = home_path(below);
	CLEAN(str) char *remedy = xasprintf("build it with `make images`: %s it", use);
	struct err err;

	if (image_open(name, &image, &err))
		add(r, what, FINE, NULL, "recipe %.12s, %d MiB of memory", image.recipe,
			image.memory_mib);
	else if (file_is_missing(folder))
		add(r, what, without, remedy, "%s is not there", folder);
	else
		add(r, what, without, remedy, "%s", err.text);
}

static void check_toolbox(struct report *r)
{
	CLEAN(str) char *path = image_toolbox();

	if (file_is_missing(path))
		add(r, "toolbox", MISSING, "build it with `make images`: checks need it",
			"%s is not there", path);
	else if (access(path, R_OK) < 0)
		add(r, "toolbox", MISSING, "let this user read it: checks need it", "%s: %s", path,
			strerror(errno));
	else
		add(r, "toolbox", FINE, NULL, "%s", path);
}

static void print(const struct report *r)
{
	for (size_t i = 0; i < json_len(r->findings); i++) {
		const struct json *j = json_at(r->findings, i);
		const char *remedy = json_get_str(j, "remedy");

		printf("%-8s %-19s %s\n", json_get_str(j, "state"), json_get_str(j, "what"),
			json_get_str(j, "found"));
		if (remedy)
			printf("%-28s -> %s\n", "", remedy);
	}
}

static void print_json(const struct report *r)
{
	CLEAN(json) struct json *j = json_object();
	CLEAN(str) char *text = NULL;

	json_set_str(j, "version", VERSION);
	json_set_bool(j, "usable", !r->missing);
	json_set(j, "findings", json_copy(r->findings));
	text = json_pretty(j);
	puts(text);
}

static int run(int argc, char **argv)
{
	CLEAN(json) struct json *findings = json_array();
	struct report r = { .findings = findings };
	bool as_json = argc == 2 && !strcmp(argv[1], "--json");
	struct err err;

	if (usage_wants_help(argc, argv))
		return usage_help(&cmd_doctor);
	if (argc > 1 && !as_json)
		return usage_error(&cmd_doctor, "%s is not understood", argv[1]);
	check_program(&r, QEMU_PROGRAM, QEMU_PACKAGE);
	check_program(&r, QEMU_IMG_PROGRAM, QEMU_IMG_PACKAGE);
	if (!check_accel(&r, &err)) {
		fprintf(stderr, "postern doctor: %s\n", err.text);
		return 1;
	}
	check_confinement(&r);
	check_memory(&r);
	check_disk(&r);
	check_limit(&r, "open files", LIMIT_DESCRIPTORS);
	check_limit(&r, "processes", LIMIT_PROCESSES);
	check_image(&r, "mini", "everything needs", MISSING);
	check_toolbox(&r);
	check_image(&r, "server", "scenarios need", BETTER);
	if (as_json)
		print_json(&r);
	else
		print(&r);
	return r.missing ? 1 : 0;
}

const struct cli_command cmd_doctor = {
	.name = "doctor",
	.args = "[--json]",
	.does = "Tell whether this host has all that postern needs, and what to do where it has "
		"not",
	.details = "  --json  the same for programs\n\n"
		   "Exit code: 0 when machines can run here, 1 when something needed is missing, 2 "
		   "wrong "
		   "use.\n\n"
		   "Example: postern doctor\n",
	.run = run,
};
