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

/* Counted up when warming up, settling or breaking a machine is done in another way. */
#define FORMAT "1"

/* A file that is replaced changes in size or time. */
static void add_file(struct buf *text, const char *path)
{
	struct stat st;

	if (path && stat(path, &st) == 0)
		buf_printf(text, " %s %lld %lld.%09ld", path, (long long)st.st_size,
			(long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

static char *program(void)
{
	CLEAN(str) char *path = process_find(QEMU_PROGRAM);
	CLEAN(buf) struct buf text = { 0 };

	add_file(&text, path);
	return xstrdup(buf_text(&text));
}

/* An image may be built again from the same recipe, of newer packages. */
static char *contents(const struct image *image)
{
	CLEAN(buf) struct buf text = { 0 };

	buf_str(&text, image->recipe);
	add_file(&text, image->kernel);
	add_file(&text, image->initramfs);
	add_file(&text, image->disk);
	return buf_take(&text);
}

/* All devices and settings stand in the command line; names of files are left out. */
static char *command_line(const struct image *image, int memory_mib, enum accel accel)
{
	const struct machine_spec spec = { .image = image,
		.overlay = image->disk ? "overlay" : NULL,
		.memory_mib = memory_mib,
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
	CLEAN(str) char *line = NULL;
	size_t room = 0;

	while (f && getline(&line, &room, f) > 0 && *line != '\n')
		if (!strncmp(line, "model name", 10) || !strncmp(line, "microcode", 9) ||
			!strncmp(line, "flags", 5))
			buf_str(&text, line);
	if (f)
		(void)fclose(f);
	return xstrdup(buf_text(&text));
}

struct json *template_key(
	const struct image *image, int memory_mib, enum accel accel, const char *base)
{
	struct json *key = json_object();
	CLEAN(str) char *files = contents(image);
	CLEAN(str) char *qemu = program();
	CLEAN(str) char *line = command_line(image, memory_mib, accel);
	CLEAN(str) char *cpu = processor(accel);
	CLEAN(str) char *memory = xasprintf("%d MiB", memory_mib);

	json_set_str(key, "postern", VERSION "." FORMAT);
	json_set_str(key, "image", files);
	json_set_str(key, "QEMU", qemu);
	json_set_str(key, "accelerator", accel_name(accel));
	json_set_str(key, "processor", cpu);
	json_set_str(key, "memory", memory);
	json_set_str(key, "command line", line);
	if (base)
		json_set_str(key, "image's template", base);
	return key;
}

const char *template_key_differs(const struct json *is, const struct json *was)
{
	for (size_t i = 0; i < json_len(is); i++) {
		const char *name = json_name(json_at(is, i));
		const char *a = json_get_str(is, name), *b = json_get_str(was, name);

		if (!a || !b || strcmp(a, b) != 0)
			return name;
	}
	return NULL;
}
