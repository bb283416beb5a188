/* SPDX-License-Identifier: Apache-2.0 */
/* Start a VM with a listening channel, and connect to it. */
#include "vm.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/process.h"
#include "base/xalloc.h"
#include "machine/accel.h"
#include "machine/console.h"
#include "machine/machine.h"
#include "machine/qemu.h"
#include "machine/qmp.h"
#include "test.h"

#define ARGS_ROOM     96
#define INITRAMFS_MAX (256 << 20)
#define ATTACH_MS     1000 /* without an answer in this time the port may be wedged */

struct vm vm;
static enum accel accel;

int64_t vm_in(int64_t ms)
{
	return clock_in(ms * accel_time_factor(accel));
}

unsigned vm_rounds(unsigned few)
{
	const char *times = getenv("ROUNDS");
	unsigned long n = times ? strtoul(times, NULL, 10) : 1;

	return few * (unsigned)(n ? n : 1);
}

unsigned vm_rounds_of(unsigned few, unsigned many)
{
	unsigned times = vm_rounds(1);

	return times > 1 ? (unsigned)((uint64_t)many * times / 10) : few;
}

uint64_t vm_seed(void)
{
	const char *given = getenv("SEED");
	uint64_t seed = 0;

	CHECK(getrandom(&seed, sizeof(seed), 0) == sizeof(seed));
	seed = given ? strtoull(given, NULL, 0) : seed;
	printf("# SEED=0x%llx\n", (unsigned long long)seed);
	return seed;
}

/* splitmix64: every seed gives a good row. */
uint64_t vm_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static char *below(const char *name)
{
	return xasprintf("%s/%s", vm.dir, name);
}

static void on_event(void *self, const char *name, const struct json *data)
{
	(void)self;
	if (!strcmp(name, "RESET") && json_get_bool(data, "guest", false))
		vm.resets++;
}

/* One more archive behind the image's: the kernel unpacks both. Returns its path, owned. */
static char *initramfs_with(const char *init)
{
	CLEAN(buf) struct buf all = { 0 };
	char *path = below("initramfs");
	const size_t len = strlen(init);

	CHECK(file_read(vm.image.initramfs, INITRAMFS_MAX, &all, &vm.err));
	while (all.len % 4)
		buf_add(&all, "", 1);
	/* Inode, mode, owner, group, links, time, size, devices, length of the name, checksum. */
	buf_printf(&all, "070701%08x%08x%08x%08x%08x%08x%08zx%08x%08x%08x%08x%08x%08x", 1, 0100755,
		0, 0, 1, 0, len, 0, 0, 0, 0, 11, 0);
	buf_add(&all, "supervisor", 11);
	while (all.len % 4)
		buf_add(&all, "", 1);
	buf_add(&all, init, len);
	while (all.len % 4)
		buf_add(&all, "", 1);
	buf_printf(&all, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", 0, 0, 0, 0,
		1, 0, 0, 0, 0, 0, 0, 11, 0);
	buf_add(&all, "TRAILER!!!\0\0\0\0", 14);
	CHECK(file_write(path, all.data, all.len, &vm.err));
	return path;
}

static void use_init(const char *init)
{
	char *append = xasprintf("%s rdinit=/supervisor", vm.image.append);
	char *initramfs = initramfs_with(init);

	free(vm.image.append);
	free(vm.image.initramfs);
	vm.image.append = append;
	vm.image.initramfs = initramfs;
}

static char *scratch_disk(void)
{
	CLEAN(buf) struct buf said = { 0 };
	CLEAN(str) char *path = below("snapshots");
	const char *const argv[] = { QEMU_IMG_PROGRAM, "create", "-q", "-f", "qcow2", path, "8G",
		NULL };

	CHECK(process_run(argv, QEMU_IMG_PACKAGE, VM_LONG, &said, 4096, &vm.err));
	return xasprintf("if=none,id=snapshots,format=qcow2,cache=unsafe,file=%s", path);
}

/* Returns its path, owned; NULL for an image without a disk. */
static char *overlay(void)
{
	char *path = vm.image.disk ? below("overlay") : NULL;

	if (path)
		CHECK(overlay_create(path, vm.image.disk, &vm.err));
	return path;
}

static void start_qemu(const struct vm_spec *spec, int control, int console, int words)
{
	CLEAN(str) char *disk = overlay();
	const struct machine_spec machine = {
		.image = &vm.image, .memory_mib = spec->memory_mib, .overlay = disk
	};
	const struct qemu_fds fds = { .control = control, .channel = -1, .console = console };
	const int keep[] = { control, console, -1 };
	CLEAN(str) char *port = NULL;
	CLEAN(str) char *drive = spec->snapshots ? scratch_disk() : NULL;
	char **made = qemu_command(&machine, accel, &fds);
	const char *argv[ARGS_ROOM] = { NULL };
	size_t n = 0, listening = 0;

	port = xasprintf("socket,id=port,path=%s/channel,server=on,wait=off", vm.dir);
	for (; made[n]; n++) {
		CHECK(n + 3 < ARGS_ROOM);
		argv[n] = made[n];
		if (!strcmp(made[n], "socket,id=port,fd=-1")) {
			argv[n] = port;
			listening++;
		}
	}
	CHECK_INT(listening, 1);
	if (drive) {
		argv[n++] = "-drive";
		argv[n++] = drive;
	}
	vm.qemu = process_start(&(struct process_spec){ .argv = argv,
					.package = QEMU_PACKAGE,
					.stdio = { -1, words, words },
					.keep = keep },
		&vm.err);
	if (!vm.qemu)
		CHECK_STR(vm.err.text, "QEMU");
	qemu_command_free(made);
}

static void start_machine(const struct vm_spec *spec)
{
	CLEAN(fd) int control = -1;
	CLEAN(fd) int console = -1;
	CLEAN(fd) int words = -1;
	int ours;

	CHECK(fd_pair(&ours, &control, &vm.err));
	vm.qmp = qmp_new(&vm.loop, ours, on_event, NULL);
	CHECK(fd_pair(&ours, &console, &vm.err));
	vm.console = console_new(&vm.loop, ours, NULL, &vm.err);
	CHECK(fd_pair(&ours, &words, &vm.err));
	vm.words = console_new(&vm.loop, ours, NULL, &vm.err);
	start_qemu(spec, control, console, words);
}

void vm_tell(const char *what)
{
	CLEAN(str) char *console = vm.console ? console_last(vm.console, 6) : NULL;
	CLEAN(str) char *words = vm.words ? console_last(vm.words, 3) : NULL;

	printf("# %s\n", what);
	if (console && words)
		printf("# QEMU said: %s; the console ends with: %s\n", words, console);
}

void vm_until(bool (*done)(const void *arg), const void *arg, int64_t ms, const char *what)
{
	if (loop_until(&vm.loop, done, arg, vm_in(ms), &vm.err))
		return;
	vm_tell(vm.err.text);
	CHECK_STR("it did not happen", what);
}

static bool qemu_answers(const void *arg)
{
	(void)arg;
	return qmp_greeted(vm.qmp) || process_ended(vm.qemu, NULL);
}

int vm_connect(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	const struct timeval limit = { .tv_sec = VM_LONG / 1000 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(name.sun_path, sizeof(name.sun_path), "%s/channel", vm.dir);
	CHECK(fd >= 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0);
	CHECK(connect(fd, (const struct sockaddr *)&name, sizeof(name)) == 0);
	CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	return fd;
}

static int new_wire(void)
{
	wire_free(vm.wire);
	vm.wire = wire_new(&vm.loop, vm_connect());
	return wire_end(vm.wire);
}

void vm_detach(void)
{
	session_detach(vm.session);
	wire_free(vm.wire);
	vm.wire = NULL;
}

/* QEMU forgets to tell the guest of a host that went while the machine was paused, and keeps back
 * what the guest says; a host that goes once more while it runs mends that. */
static bool answers_or_once_more(int64_t once_more_ms)
{
	if (session_wait_open(vm.session, vm_in(ATTACH_MS), &vm.err))
		return true;
	vm.wedged++;
	vm_detach();
	session_attach(vm.session, new_wire());
	return session_wait_open(vm.session, vm_in(once_more_ms), &vm.err);
}

static void must_answer(void)
{
	if (answers_or_once_more(VM_LONG))
		return;
	vm_tell(vm.err.text);
	CHECK_STR(vm.err.text, "an answer to the greeting");
}

void vm_attach(void)
{
	session_attach(vm.session, new_wire());
	must_answer();
}

static bool is_open_or_cut(const void *arg)
{
	(void)arg;
	return session_is_open(vm.session) || !session_is_attached(vm.session);
}

void vm_attach_briefly(uint64_t bytes)
{
	session_attach(vm.session, new_wire());
	vm.wire->left = bytes;
	vm_until(is_open_or_cut, NULL, VM_LONG, "an answer to the greeting, or the cut");
	vm_detach();
}

static void new_session(bool keep_connection)
{
	session_free(vm.session);
	vm.session = session_new(&vm.loop, keep_connection ? wire_end(vm.wire) : new_wire());
	session_keep(vm.session);
}

void vm_start(const struct vm_spec *spec)
{
	const char *why;

	strcpy(vm.dir, "/tmp/postern-test-XXXXXX");
	CHECK(mkdtemp(vm.dir));
	CHECK(loop_init(&vm.loop, false, &vm.err));
	if (!image_open(spec->image, &vm.image, &vm.err))
		SKIP(vm.err.text);
	CHECK(accel_choose(&vm.loop, &accel, &why, &vm.err));
	if (spec->init)
		use_init(spec->init);
	start_machine(spec);
	vm_until(qemu_answers, NULL, VM_LONG, "QEMU answers");
	new_session(false);
	if (!session_wait_open(vm.session, vm_in(VM_LONG), &vm.err)) {
		vm_tell(vm.err.text);
		CHECK_STR(vm.err.text, "HELLO");
	}
}

void vm_stop(void)
{
	session_free(vm.session);
	wire_free(vm.wire);
	process_free(vm.qemu);
	qmp_free(vm.qmp);
	console_free(vm.words);
	console_free(vm.console);
	image_release(&vm.image);
	loop_release(&vm.loop);
	CHECK(dir_remove(vm.dir, &vm.err));
}

void vm_renew(bool keep_connection)
{
	new_session(keep_connection);
	must_answer();
}

bool vm_try_renew(bool keep_connection)
{
	new_session(keep_connection);
	return answers_or_once_more(ATTACH_MS);
}

void vm_control(const char *command)
{
	if (!qmp_call(vm.qmp, command, NULL, vm_in(VM_LONG), NULL, &vm.err))
		CHECK_STR(vm.err.text, command);
}

const char *vm_monitor(const char *line)
{
	static char said[512];
	struct json *arguments = json_object();
	CLEAN(json) struct json *answer = NULL;

	json_set_str(arguments, "command-line", line);
	if (!qmp_call(vm.qmp, "human-monitor-command", arguments, vm_in(VM_LONG), &answer, &vm.err))
		CHECK_STR(vm.err.text, line);
	(void)snprintf(said, sizeof(said), "%s", json_text(answer));
	said[strcspn(said, "\r\n")] = '\0';
	return said;
}

void vm_save(const char *tag)
{
	CLEAN(str) char *line = xasprintf("savevm %s", tag);

	CHECK_STR(vm_monitor(line), "");
}

void vm_load(const char *tag)
{
	CLEAN(str) char *line = xasprintf("loadvm %s", tag);

	CHECK_STR(vm_monitor(line), "");
}
