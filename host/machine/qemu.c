/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of QEMU, from 7.2 on.
 *
 * The machine type is the newest q35 of whatever QEMU is installed: a saved state is only ever
 * loaded by the QEMU that saved it. -no-reboot is absent on purpose: a
 * guest may reboot. Every image format is explicit, nothing is ever probed.
 */
#include "qemu.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/xalloc.h"
#include "limits.h"

#define ARGS_ROOM 64
#define MACHINE	  "q35,usb=off,hpet=off,vmport=off,sata=off,smbus=off"

/* Emulated, the model counts: it has all that x86-64-v2 distributions ask for and a random number
 * instruction, without which the first boot of a guest waits for entropy; and none of the wide
 * vectors and checks whose emulation makes `max` slow. */
#define EMULATED_CPU "Westmere,+rdrand"

static const char *const fixed[] = {
	"-nodefaults",
	"-no-user-config",
	"-display",
	"none",
	"-device",
	"vmgenid,id=generation,guid=auto",
	"-smp",
	"1",
	"-action",
	"panic=none",
	"-sandbox",
	"on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
	NULL,
};

static const char *const expected[] = { "virtio-serial-pci", "virtserialport", "virtio-blk-pci",
	"vmgenid" };

struct args {
	char **v;
	int n;
};

static void add(struct args *a, const char *s)
{
	a->v[a->n++] = xstrdup(s);
}

static void add_value(struct args *a, const char *option, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void add_value(struct args *a, const char *option, const char *fmt, ...)
{
	va_list ap;
	char *value;

	va_start(ap, fmt);
	if (vasprintf(&value, fmt, ap) < 0)
		out_of_memory();
	va_end(ap);
	add(a, option);
	a->v[a->n++] = value;
}

/* As JSON: a path may hold commas. */
static void add_disk(struct args *a, const char *overlay)
{
	CLEAN(json) struct json *node = json_object();
	struct json *cache = json_set(node, "cache", json_object());
	struct json *file;
	CLEAN(str) char *line = NULL;

	json_set_str(node, "node-name", QEMU_DISK_NODE);
	json_set_str(node, "driver", "qcow2");
	json_set_str(node, "discard", "unmap");
	json_set_str(node, "detect-zeroes", "unmap");
	/* The host's crash may lose an overlay; a guest's fsync then costs nothing. */
	json_set_bool(cache, "no-flush", true);
	file = json_set(node, "file", json_object());
	json_set_str(file, "driver", "file");
	json_set_str(file, "filename", overlay);
	json_set_str(file, "discard", "unmap");
	json_set_bool(json_set(file, "cache", json_object()), "no-flush", true);
	line = json_line(node);
	add_value(a, "-blockdev", "%s", line);
	/* What fails on the host is the host's fault: the guest waits, and is not told. */
	add_value(a, "-device", "virtio-blk-pci,drive=%s,id=blk,werror=stop,rerror=stop",
		QEMU_DISK_NODE);
}

/* As JSON: a path may hold commas. */
static void add_memory(struct args *a, const struct machine_spec *spec, int mib)
{
	CLEAN(json) struct json *object = json_object();
	CLEAN(str) char *inherited = xasprintf("/proc/self/fd/%d", spec->memory_fd);
	CLEAN(str) char *line = NULL;

	add_value(a, "-m", "%d", mib);
	/* It has the same name in all machines: a state is loaded into another kind of memory. */
	add_value(a, "-machine", "%s,memory-backend=ram", MACHINE);
	json_set_str(object, "qom-type",
		spec->memory == MEMORY_OWN ? "memory-backend-ram" : "memory-backend-file");
	json_set_str(object, "id", "ram");
	json_set_int(object, "size", (int64_t)mib << 20);
	if (spec->memory != MEMORY_OWN)
		json_set_str(
			object, "mem-path", memory_is_given(spec) ? inherited : spec->memory_file);
	json_set_bool(object, "share", memory_is_given(spec));
	/* All pages at once take less time than one by one. */
	if (spec->memory == MEMORY_EMPTY)
		json_set_bool(object, "prealloc", true);
	line = json_line(object);
	add_value(a, "-object", "%s", line);
	if (memory_goes_on(spec))
		add_value(a, "-incoming", "defer");
}

static void add_channels(struct args *a, const struct qemu_fds *fds)
{
	add_value(a, "-chardev", "socket,id=control,fd=%d", fds->control);
	add_value(a, "-mon", "chardev=control,mode=control");
	add_value(a, "-chardev", "socket,id=console,fd=%d", fds->console);
	add_value(a, "-serial", "chardev:console");
	add_value(a, "-chardev", "socket,id=port,fd=%d", fds->channel);
	add_value(a, "-device", "virtio-serial-pci,id=serial,max_ports=2");
	add_value(a, "-device", "virtserialport,bus=serial.0,chardev=port,id=%s,name=%s",
		QEMU_CHANNEL_PORT, PORT_NAME);
}

char **qemu_command(const struct machine_spec *spec, enum accel accel, const struct qemu_fds *fds)
{
	const struct image *image = spec->image;
	struct args a = { .v = xcalloc(ARGS_ROOM, sizeof(char *)) };

	add(&a, QEMU_PROGRAM);
	for (const char *const *s = fixed; *s; s++)
		add(&a, *s);
	add_value(&a, "-accel", "%s", accel_name(accel));
	add_value(&a, "-cpu", "%s", accel == ACCEL_KVM ? "host" : EMULATED_CPU);
	add_memory(&a, spec, spec->memory_mib ? spec->memory_mib : image->memory_mib);
	add_value(&a, "-kernel", "%s", image->kernel);
	add_value(&a, "-initrd", "%s", image->initramfs);
	add_value(&a, "-append", "%s", image->append);
	add_channels(&a, fds);
	if (spec->overlay)
		add_disk(&a, spec->overlay);
	return a.v;
}

void qemu_command_free(char **argv)
{
	for (char **s = argv; s && *s; s++)
		free(*s);
	free(argv);
}

char *qemu_path(const char *path)
{
	return xasprintf("%s%s", *path == '/' ? "" : "./", path);
}

bool qemu_device_expected(const char *type)
{
	for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++)
		if (!strcmp(type, expected[i]))
			return true;
	return false;
}
