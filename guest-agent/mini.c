/* SPDX-License-Identifier: Apache-2.0 */
/* Set up a machine without a distribution. */
#include "mini.h"

#include <net/if.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void loopback_up(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	/* 0x8914: SIOCSIFFLAGS. The kernel gives it 127.0.0.1 by itself. */
	if (fd >= 0)
		(void)syscall(SYS_ioctl, fd, 0x8914, &lo);
	close(fd);
}

void mini_terminals(void)
{
	(void)mkdir("/dev/pts", 0755);
	(void)mount(
		"devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "mode=0620,ptmxmode=0666");
}

void mini_set_up(void)
{
	static const struct {
		const char *type, *dir, *options;
	} mounts[] = {
		{ "tmpfs", "/dev/shm", "mode=1777" },
		{ "tmpfs", "/tmp", "mode=1777" },
		{ "tmpfs", "/run", "mode=0755" },
		{ "cgroup2", MINI_CGROUP, NULL },
	};
	static const char name[] = "mini";

	mini_terminals();
	for (size_t i = 0; i < sizeof(mounts) / sizeof(*mounts); i++) {
		(void)mkdir(mounts[i].dir, 0755);
		(void)mount(mounts[i].type, mounts[i].dir, mounts[i].type, MS_NOSUID,
			mounts[i].options);
	}
	(void)!sethostname(name, strlen(name));
	loopback_up();
}
