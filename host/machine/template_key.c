/* SPDX-License-Identifier: Apache-2.0 */
/* What a template depends on. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "template_key.h"

#include "base/buf.h"
#include "base/process.h"
#include "base/xalloc.h"
#include "qemu.h"

/* The program that runs: an update changes size or time. */
static char *program(void)
{
	CLEAN(str) char *path = process_find(QEMU_PROGRAM);
	struct stat st = { 0 };

	if (!path || stat(path, &st) < 0)
		return xstrdup("");
	return xasprintf("%s %lld %lld.%09ld", path, (long long)st.st_size,
		(long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

/* All devices and settings stand in the command line; names of files are left out. */
static char *machine(const struct image *image, enum accel accel)
{
	const struct machine_spec spec = { .image = image,
		.overlay = image->disk ? "overlay" : NULL,
		.memory = MEMORY_PRIVATE,
		.memory_file = "memory" };
	char **argv = qemu_command(&spec, accel, &(struct qemu_fds){ 0 });
	CLEAN(buf) struct buf line = { 0 };

	for (char **s = argv; *s; s++)
		buf_printf(&line, "%s ", *s);
	qemu_command_free(argv);
	return buf_take(&line);
}

/* Under KVM the guest sees the host's processor, and its microcode. */
static char *processor(enum accel accel)
{
	FILE *f = accel == ACCEL_KVM ? fopen("/proc/cpuinfo", "re") : NULL;
	CLEAN(buf) struct buf text = { 0 };
	char line[512];

	while (f && fgets(line, sizeof(line), f) && *line != '\n')
		if (!strncmp(line, "model name", 10) || !strncmp(line, "microcode", 9) ||
			!strncmp(line, "flags", 5))
			buf_add(&text, line, strcspn(line, "\n"));
	if (f)
		(void)fclose(f);
	return buf_take(&text);
}

struct json *template_key(const struct image *image, enum accel accel)
{
	struct json *key = json_object();
	CLEAN(str) char *qemu = program();
	CLEAN(str) char *line = machine(image, accel);
	CLEAN(str) char *cpu = processor(accel);

	json_set_str(key, "postern", VERSION);
	json_set_str(key, "image", image->recipe);
	json_set_str(key, "QEMU", qemu);
	json_set_str(key, "accelerator", accel_name(accel));
	json_set_str(key, "processor", cpu);
	json_set_str(key, "machine", line);
	return key;
}

const char *template_key_differs(const struct json *is, const struct json *was)
{
	static const char *const names[] = { "postern", "image", "QEMU", "accelerator", "processor",
		"machine" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *a = json_get_str(is, names[i]), *b = json_get_str(was, names[i]);

		if (!a || !b || strcmp(a, b) != 0)
			return names[i];
	}
	return NULL;
}
