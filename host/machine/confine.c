/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU gives up what it does not need: first what must be given up with rights, then the rights. */
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/process.h"
#include "base/xalloc.h"
#include "callfilter.h"
#include "landlock.h"
#include "qemu.h"

#define DESCRIPTORS 512
#define MIB	    1048576ULL
#define SLACK_MIB   7168 /* of addresses beside the guest's memory: 1.5 GiB, and 72 MiB a thread */
#define DISK_SLACK  (64 * MIB) /* of an overlay, beside twice what the guest sees */
#define TRY_MS	    20000

#define WANTS_SECCOMP "boot a kernel that has seccomp filters"

static const struct {
	const char *name, *kept, *lacking, *remedy;
} texts[CONFINE_MEASURES] = {
	[CONFINE_FILES] = { "files", "QEMU opens the files of its machine and no others",
		"QEMU may open whatever its user may",
		"boot a kernel from 5.13 on that has landlock among its security modules (lsm=)" },
	[CONFINE_NETWORK] = { "network", "QEMU is in a network of its own, which leads nowhere",
		"QEMU is in the host's network, though it can't make a socket",
		"allow user namespaces to ordinary users: see user.max_user_namespaces and "
		"kernel.apparmor_restrict_unprivileged_userns in sysctl" },
	[CONFINE_CALLS] = { "calls", "QEMU makes no sockets and touches no other process",
		"QEMU may make sockets and touch other processes", WANTS_SECCOMP },
	[CONFINE_PRIVILEGES] = { "privileges", "QEMU has no privileges and gains none",
		"QEMU may have privileges or gain some", WANTS_SECCOMP },
	[CONFINE_LIMITS] = { "limits", "QEMU's memory, descriptors and files are limited",
		"QEMU has the limits of its user", "look at `ulimit -a`" },
};

struct confine {
	struct landlock files;
	int ours, theirs; /* pipe of what is in force */
	uint64_t file_bytes, address_bytes;
};

/* What it takes to run QEMU at all. */
static const char *const programs[] = { "/usr", "/bin", "/sbin", "/lib", "/lib64", NULL };
static const char *const facts[] = { "/etc/ld.so.cache", "/etc/ld.so.preload", "/dev/random",
	"/dev/urandom", "/sys/devices/system/cpu", "/sys/devices/system/node", NULL };

/* The program, and what belongs to one that was not installed by the distribution. */
static void allow_qemu(struct landlock *l)
{
	static const char *const parts[] = { "lib", "lib64", "share/qemu", NULL };
	CLEAN(str) char *found = process_find(QEMU_PROGRAM);
	CLEAN(str) char *program = found ? realpath(found, NULL) : NULL;
	char *slash;

	if (!program)
		return;
	landlock_allow(l, program, LANDLOCK_PROGRAMS);
	slash = strrchr(program, '/');
	*slash = 0;
	for (const char *const *part = parts; *part; part++) {
		CLEAN(str) char *folder = xasprintf("%s/../%s", program, *part);

		landlock_allow(l, folder, LANDLOCK_PROGRAMS);
	}
}

static void allow_machine(struct landlock *l, const struct machine_spec *spec, enum accel accel)
{
	/* Disks of trials stand on those of templates that are gone, too. */
	CLEAN(str) char *templates = home_path("templates");

	landlock_allow(l, spec->image->kernel, LANDLOCK_READ);
	landlock_allow(l, spec->image->initramfs, LANDLOCK_READ);
	if (accel == ACCEL_KVM)
		landlock_allow(l, "/dev/kvm", LANDLOCK_DEVICE);
	if (spec->overlay) {
		landlock_allow(l, spec->image->disk, LANDLOCK_READ);
		landlock_allow(l, templates, LANDLOCK_READ);
		landlock_allow(l, spec->overlay, LANDLOCK_WRITE);
	}
	if (spec->below)
		landlock_allow(l, spec->below, LANDLOCK_READ);
	/* QEMU opens it for writing, though it maps it privately. */
	if (spec->memory == MEMORY_PRIVATE)
		landlock_allow(l, spec->memory_file, LANDLOCK_CHANGE);
	if (memory_is_given(spec))
		landlock_allow_fd(l, spec->memory_fd, LANDLOCK_CHANGE);
}

static void limit(struct confine *c, const struct machine_spec *spec)
{
	uint64_t mib = (uint64_t)(spec->memory_mib ? spec->memory_mib : spec->image->memory_mib);
	uint64_t size;

	c->address_bytes = (mib + SLACK_MIB) * MIB;
	if (spec->overlay)
		c->file_bytes =
			overlay_size(spec->overlay, &size) ? 2 * size + DISK_SLACK : RLIM_INFINITY;
}

struct confine *confine_new(const struct machine_spec *spec, enum accel accel)
{
	struct confine *c = xcalloc(1, sizeof(*c));
	int told[2] = { -1, -1 };

	/* Without the pipe nothing is told, so nothing counts as in force. */
	(void)!pipe2(told, O_CLOEXEC | O_NONBLOCK);
	*c = (struct confine){
		.ours = told[0], .theirs = told[1], .address_bytes = SLACK_MIB * MIB
	};
	landlock_init(&c->files);
	for (const char *const *path = programs; *path; path++)
		landlock_allow(&c->files, *path, LANDLOCK_PROGRAMS);
	for (const char *const *path = facts; *path; path++)
		landlock_allow(&c->files, *path, LANDLOCK_READ);
	landlock_allow(&c->files, "/dev/null", LANDLOCK_WRITE);
	allow_qemu(&c->files);
	if (spec) {
		allow_machine(&c->files, spec, accel);
		limit(c, spec);
	}
	return c;
}

void confine_free(struct confine *c)
{
	if (!c)
		return;
	landlock_release(&c->files);
	fd_close(&c->ours);
	fd_close(&c->theirs);
	free(c);
}

/* Lowers a limit; one that is lower already stays. */
static int lower(__rlimit_resource_t what, rlim_t to)
{
	struct rlimit now;

	if (getrlimit(what, &now) < 0)
		return errno;
	now.rlim_max = now.rlim_max < to ? now.rlim_max : to;
	now.rlim_cur = now.rlim_cur < to ? now.rlim_cur : to;
	return setrlimit(what, &now) < 0 ? errno : 0;
}

static int enter_limits(const struct confine *c)
{
	int why = lower(RLIMIT_CORE, 0);

	if (!why)
		why = lower(RLIMIT_NOFILE, DESCRIPTORS);
	if (!why)
		why = lower(RLIMIT_FSIZE, c->file_bytes);
	return why ? why : lower(RLIMIT_AS, c->address_bytes);
}

/* A user namespace lets anybody have a network one. It takes the privilege to open others' files,
 * so whoever may do without does. */
static int enter_network(void)
{
	if (unshare(CLONE_NEWNET) == 0)
		return 0;
	if (errno != EPERM || geteuid() == 0)
		return errno;
	return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 ? 0 : errno;
}

/* Root keeps that to open files of others: which ones it may open is for Landlock to say. */
static int enter_privileges(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct now[_LINUX_CAPABILITY_U32S_3] = { 0 };
	uint32_t kept;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_capget, &head, now) < 0)
		return errno;
	kept = now[0].permitted & 1U << CAP_DAC_OVERRIDE;
	memset(now, 0, sizeof(now));
	now[0].permitted = now[0].effective = kept;
	return syscall(SYS_capset, &head, now) < 0 ? errno : 0;
}

bool confine_enter(const void *self)
{
	const struct confine *c = self;
	int why[CONFINE_MEASURES];

	why[CONFINE_LIMITS] = enter_limits(c);
	why[CONFINE_NETWORK] = enter_network();
	why[CONFINE_PRIVILEGES] = enter_privileges();
	why[CONFINE_FILES] = landlock_enter(&c->files);
	why[CONFINE_CALLS] = callfilter_enter();
	(void)!write(c->theirs, why, sizeof(why));
	return true;
}

void confine_told(struct confine *c, struct confinement *ret_confinement)
{
	struct confinement told = { .landlock = c->files.version };

	if (read(c->ours, told.why, sizeof(told.why)) != sizeof(told.why))
		for (int i = 0; i < CONFINE_MEASURES; i++)
			told.why[i] = EPIPE;
	*ret_confinement = told;
}

const char *confine_name(enum measure measure)
{
	return texts[measure].name;
}

const char *confine_remedy(enum measure measure)
{
	return texts[measure].remedy;
}

char *confinement_text(const struct confinement *c, enum measure measure)
{
	const char *kept = texts[measure].kept, *lacking = texts[measure].lacking;

	if (c->why[measure])
		return xasprintf("%s: %s", lacking, strerror(c->why[measure]));
	if (measure == CONFINE_FILES)
		return xasprintf("%s (Landlock, version %d)", kept, c->landlock);
	return xstrdup(kept);
}

struct json *confinement_json(const struct confinement *c)
{
	struct json *all = json_object();

	for (enum measure i = 0; i < CONFINE_MEASURES; i++) {
		struct json *one = json_set(all, texts[i].name, json_object());
		CLEAN(str) char *text = confinement_text(c, i);

		json_set_bool(one, "in_force", !c->why[i]);
		json_set_str(one, "text", text);
	}
	return all;
}

bool confine_try(struct confinement *ret_confinement, struct err *err)
{
	static const char *const argv[] = { QEMU_PROGRAM, "--version", NULL };
	CLEAN(confine) struct confine *c = confine_new(NULL, ACCEL_TCG);
	CLEAN(process) struct process *p = NULL;
	int status;

	p = process_start(&(struct process_spec){ .argv = argv,
				  .package = QEMU_PACKAGE,
				  .stdio = { -1, -1, -1 },
				  .enter = confine_enter,
				  .self = c },
		err);
	if (!p)
		return false;
	confine_told(c, ret_confinement);
	if (!process_wait(p, TRY_MS) || !process_ended(p, &status) || status != 0)
		return err_set(err, ERR_SYSTEM,
			"%s does not run under confinement: its files may lie where postern does "
			"not expect them",
			QEMU_PROGRAM);
	return true;
}
