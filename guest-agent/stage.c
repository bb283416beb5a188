/* SPDX-License-Identifier: Apache-2.0 */
/* Boot by /boot.conf, split, hand PID 1 over. */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"
#include "group.h"
#include "kernfs.h"
#include "loop.h"
#include "mini.h"
#include "service.h"
#include "text.h"

#define NAME	"vportd" /* what the copy is called */
#define READY	3	 /* its descriptor of the pipe that ends at exec */
#define DISK_MS 10000	 /* 10 s: a disk that is not there by then does not come */
#define CGROUP	"/cgroup"

/* The parts of one sentence for people, up to a NULL; then the end of the machine. */
static _Noreturn void give_up(const char *const *parts)
{
	char sentence[512];
	struct text text = text_in(sentence, sizeof(sentence) - 1);

	while (*parts)
		text_add(&text, *parts++);
	*text.at++ = '\n';
	(void)!write(2, sentence, (size_t)(text.at - sentence));
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

#define GIVE_UP(...) give_up((const char *const[]){ "initramfs: ", __VA_ARGS__, NULL })

static void mount_kernel(const char *type, const char *dir)
{
	(void)mkdir(dir, 0755);
	if (mount(type, dir, type, 0, NULL) < 0 && errno != EBUSY)
		GIVE_UP(type, " can't be mounted: ", strerror(errno),
			"; the kernel needs support for it");
}

static void load_module(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST))
		GIVE_UP("module ", path, " can't be loaded: ", strerror(errno),
			"; it must fit the kernel and stand behind what it needs in /boot.conf");
	close(fd);
	/* Its memory is better used otherwise. */
	(void)unlink(path);
}

struct plan {
	char *device, *type, *init; /* borrowed from the text of /boot.conf */
};

static void obey(struct plan *plan, char *line)
{
	char *word = strsep(&line, " \t"), *a = strsep(&line, " \t"), *b = strsep(&line, " \t");

	if (!*word || *word == '#')
		return;
	if (!strcmp(word, "module") && a && !b)
		load_module(a);
	else if (!strcmp(word, "root") && a && b)
		plan->device = a, plan->type = b;
	else if (!strcmp(word, "init") && a && !b)
		plan->init = a;
	else
		GIVE_UP("/boot.conf has a line '", word,
			"' that is none of module PATH, root DEVICE FSTYPE and init PATH");
}

static void obey_all(struct plan *plan)
{
	static char text[16384];
	char *next = text;

	if (!kernfs_read(AT_FDCWD, "/boot.conf", text, sizeof(text)))
		GIVE_UP("/boot.conf can't be read: ", strerror(errno),
			"; it belongs into the initramfs");
	while (next) {
		char *line = next, *end = strchr(line, '\n');

		next = end ? end + 1 : NULL;
		if (end)
			*end = '\0';
		obey(plan, line);
	}
}

/* In the copy: away from the mounts to come, and a new name. */
static _Noreturn void split_off(int ready, int report)
{
	char *const argv[] = { (char[]){ "@" NAME }, NULL };
	char *const envp[] = { NULL };
	int why;

	setsid();
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		dup2(ready, READY) < 0)
		goto fail;
	/* dup2 onto itself would keep the flag. */
	fcntl(READY, F_SETFD, 0);
	execve("/proc/self/exe", argv, envp);
fail:
	why = errno;
	(void)!write(report, &why, sizeof(why));
	_exit(1);
}

/* Returns the end of a pipe whose closing at exec tells the copy that the system is there. */
static void split(void)
{
	int ready[2], report[2], why = 0;
	pid_t pid = -1;

	if (pipe2(ready, O_CLOEXEC) == 0 && pipe2(report, O_CLOEXEC) == 0)
		pid = fork();
	if (pid == 0) {
		close(ready[1]);
		split_off(ready[0], report[1]);
	}
	if (pid < 0)
		GIVE_UP("no process for the agent: ", strerror(errno),
			"; the machine needs more memory");
	close(ready[0]);
	close(report[1]);
	/* Its end: the copy has been executed. ready[1] stays open until we are. */
	if (read(report[0], &why, sizeof(why)) > 0)
		GIVE_UP("the agent can't split off: ", strerror(why),
			"; the kernel needs mount namespaces");
	close(report[0]);
}

/* Devices appear after their module is loaded, each with a uevent; /dev is devtmpfs. */
static void wait_for_disk(const char *device)
{
	const uint64_t until = now_ms() + DISK_MS;
	struct stat st;

	while (stat(device, &st) < 0 || !S_ISBLK(st.st_mode)) {
		if (now_ms() >= until)
			GIVE_UP("disk ", device,
				" did not appear in 10 s; add it, or its modules to /boot.conf");
		(void)poll(NULL, 0, 10);
	}
}

static void carry_over(const char *from, const char *to)
{
	if (mount(from, to, NULL, MS_MOVE, NULL) < 0)
		(void)umount2(from, MNT_DETACH);
}

static _Noreturn void hand_over(const struct plan *plan, char **argv, char **envp)
{
	wait_for_disk(plan->device);
	(void)mkdir("/newroot", 0755);
	if (mount(plan->device, "/newroot", plan->type, 0, NULL) < 0)
		GIVE_UP("disk ", plan->device, " can't be mounted as ", plan->type, ": ",
			strerror(errno), "; the disk is damaged, or /boot.conf lacks a module");
	carry_over("/dev", "/newroot/dev");
	carry_over("/sys", "/newroot/sys");
	carry_over("/proc", "/newroot/proc");
	if (chdir("/newroot") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
		chdir("/") < 0)
		GIVE_UP("the disk can't become the root: ", strerror(errno),
			"; boot from an initramfs");
	argv[0] = plan->init;
	execve(plan->init, argv, envp);
	GIVE_UP(plan->init, " on disk ", plan->device, " can't be run: ", strerror(errno),
		"; the disk holds no system, or a damaged one");
}

_Noreturn void stage_serve(void)
{
	static const struct agent_place place = {
		.channel = -1, .ready = READY, .enter_system = true, .owns_machine = true
	};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	fcntl(READY, F_SETFD, FD_CLOEXEC);
	for (int i = 0; i < 3; i++)
		(void)dup2(null, i);
	close(null);
	prctl(PR_SET_NAME, NAME);
	service_protect();
	mini_terminals();
	(void)mkdir(CGROUP, 0755);
	if (mount("none", CGROUP, "cgroup2", 0, NULL) == 0)
		groups_init(CGROUP);
	agent_run(&place);
}

static _Noreturn void stay(void)
{
	static const struct agent_place place = {
		.channel = -1, .ready = -1, .owns_machine = true, .is_init = true
	};

	mini_set_up();
	service_protect();
	groups_init(MINI_CGROUP);
	agent_run(&place);
}

_Noreturn void stage_boot(char **argv, char **envp)
{
	struct plan plan = { 0 };

	mount_kernel("proc", "/proc");
	mount_kernel("sysfs", "/sys");
	mount_kernel("devtmpfs", "/dev");
	obey_all(&plan);
	if (!plan.device)
		stay();
	if (!plan.init)
		GIVE_UP("/boot.conf names a root but no init; add a line init PATH");
	split();
	hand_over(&plan, argv, envp);
}
