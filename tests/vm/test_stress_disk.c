/* SPDX-License-Identifier: Apache-2.0 */
/* A distribution whose disk is full, read-only or frozen, or whose parts are hidden. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "link/tree.h"
#include "vm.h"

#define LIMIT	  1800 /* s; every wait has a deadline of its own */
#define STRAIN_MS 4000
#define FREEZE_MS 3600000
#define SIZE	  200000

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

/* A clone wakes up as it was saved, with a frozen disk, and says so to each host. */
static void a_frozen_snapshot(void)
{
	const char *output;

	if (!session_prepare(vm.session, FREEZE_MS, vm_in(VM_LONG), &vm.err))
		CHECK_STR(vm.err.text, "a frozen disk");
	vm_save("frozen");
	CHECK(session_heal(vm.session, vm_in(VM_LONG), &vm.err));
	vm_says("echo thawed >/root/x && rm /root/x", "");
	for (unsigned i = 0; i < vm_rounds(4); i++) {
		vm_load("frozen");
		vm_renew(i % 2);
		CHECK(session_is_frozen(vm.session));
		vm_ping(STRAIN_MS);
		vm_detach();
		vm_attach();
		CHECK(session_is_frozen(vm.session));
		CHECK(session_heal(vm.session, vm_in(VM_LONG), &vm.err));
		CHECK_INT(vm_shell("echo thawed >/root/x && rm /root/x", &output).value, 0);
	}
	CHECK_INT(vm.wedged, 0);
	answers();
}

TEST_WITHIN(a_system_in_trouble_is_reached, LIMIT)
{
	vm_start(&(struct vm_spec){ .image = "server", .snapshots = true });
	vm_wait_ready();
	answers();
	a_full_disk();
	a_disk_that_is_read_only();
	hidden_parts();
	a_frozen_snapshot();
	vm_stop();
}
