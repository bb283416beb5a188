/* SPDX-License-Identifier: Apache-2.0 */
/* A distribution whose disk is full, or can't be written, or whose parts are hidden. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "link/tree.h"
#include "machine/machine.h"
#include "vm.h"

#define LIMIT	  1800 /* s; every wait has a deadline of its own */
#define STRAIN_MS 4000
#define SIZE	  200000

static struct machine *machine;

static void start_server(void)
{
	CLEAN(str) char *overlay = NULL;
	struct machine_spec spec = { .image = &vm.image };

	strcpy(vm.dir, "/tmp/postern-test-XXXXXX");
	CHECK(mkdtemp(vm.dir));
	CHECK(loop_init(&vm.loop, false, &vm.err));
	if (!image_open("server", &vm.image, &vm.err))
		SKIP(vm.err.text);
	overlay = xasprintf("%s/overlay", vm.dir);
	CHECK(overlay_create(overlay, vm.image.disk, &vm.err));
	spec.overlay = overlay;
	machine = machine_start(&vm.loop, &spec, &vm.err);
	if (!machine || !machine_wait_ready(machine, clock_in(5 * VM_LONG), &vm.err))
		CHECK_STR(vm.err.text, "a system that is up");
	vm.session = machine_session(machine);
}

static void stop_server(void)
{
	vm.session = NULL;
	machine_free(machine);
	vm_stop();
}

static void answers(void)
{
	vm_ping(STRAIN_MS);
	vm_says("echo alive", "alive\n");
	vm_says("systemctl is-active nginx", "active\n");
}

static char *host_file(const char *name)
{
	return xasprintf("%s/%s", vm.dir, name);
}

/* To the system's disk. False: it did not go, and the session is as it was. */
static bool put(const char *guest_path)
{
	CLEAN(str) char *path = host_file("put");
	static char data[SIZE];
	struct tree_report report;
	bool done;

	CHECK(file_write(path, data, sizeof(data), &vm.err));
	done = session_put_tree(
		vm.session, path, guest_path, false, vm_in(VM_LONG), &report, &vm.err);
	if (!done)
		printf("# %s\n", vm.err.text);
	CHECK(session_is_open(vm.session));
	return done;
}

static void get(const char *guest_path)
{
	CLEAN(str) char *path = host_file("got");
	struct tree_report report;
	struct stat st;

	if (!session_get_tree(
		    vm.session, guest_path, path, false, vm_in(VM_LONG), &report, &vm.err))
		CHECK_STR(vm.err.text, guest_path);
	CHECK(stat(path, &st) == 0 && st.st_size > 0);
	CHECK(remove(path) == 0);
}

static void a_full_disk(void)
{
	vm_says("mkdir /fill && for size in 256M 32M 4M 512k 64k 4k; do\n"
		"	n=0; while fallocate -l $size /fill/$size.$n 2>/dev/null; do n=$((n + 1)); "
		"done\n"
		"done; echo more 2>/dev/null >/fill/more || true; df --output=avail / | tail -n 1",
		"    0\n");
	answers();
	CHECK(!put("/root/put"));
	vm_says("ls -A /root | grep put || true", "");
	get("/etc/passwd");
	answers();
	vm_says("rm -r /fill", "");
	CHECK(put("/root/put"));
	vm_says("wc -c </root/put; rm /root/put", "200000\n");
	answers();
}

/* The kernel's own emergency: no file that is open for writing holds it up. */
static void a_disk_that_is_read_only(void)
{
	vm_says("echo u >/proc/sysrq-trigger; i=0; while touch /root/x 2>/dev/null; do\n"
		"	i=$((i + 1)); [ $i -lt 10000 ] || exit 1; done",
		"");
	answers();
	CHECK(!put("/root/put"));
	get("/etc/passwd");
	answers();
	vm_says("mount -o remount,rw / && touch /root/x && rm /root/x", "");
	CHECK(put("/root/put"));
	vm_says("rm /root/put", "");
}

static void hidden_parts(void)
{
	vm_says("mount --bind /mnt /proc && ls /proc | wc -l", "0\n");
	answers();
	vm_says("umount /proc && mount --bind /mnt /sys/fs/cgroup", "");
	answers();
	vm_says("umount /sys/fs/cgroup; mount --bind /mnt /tmp; mount --bind /mnt /dev", "");
	vm_ping(STRAIN_MS);
	vm_says("/bin/echo alive", "alive\n");
	vm_says("umount /dev; umount /tmp", "");
	answers();
}

TEST_WITHIN(a_system_in_trouble_is_reached, LIMIT)
{
	start_server();
	answers();
	a_full_disk();
	a_disk_that_is_read_only();
	hidden_parts();
	stop_server();
}
