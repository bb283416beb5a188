/* SPDX-License-Identifier: Apache-2.0 */
/* Make, resize, and ask for its end-of-file character. */
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <unistd.h>

/* musl's headers lack some; its ioctl() takes a signed request. */
#define UNLOCK	  0x40045431 /* TIOCSPTLCK */
#define OPEN_PEER 0x5441     /* TIOCGPTPEER */
#define LEAD_ON	  0x540e     /* TIOCSCTTY */
#define SET_SIZE  0x5414     /* TIOCSWINSZ */

static bool makes_terminals(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(5, 2);
}

/* Neither waits nor opens anything but what makes terminals. */
static int open_master(const char *path)
{
	struct stat st;
	int fd;

	if (stat(path, &st) < 0)
		return -1;
	errno = ENOTTY;
	if (!makes_terminals(&st))
		return -1;
	fd = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) < 0 || !makes_terminals(&st))) {
		close(fd);
		errno = ENOTTY;
		fd = -1;
	}
	return fd;
}

/* The side of the program: from the master, since a path could lead elsewhere. */
static int open_peer(int master)
{
	int locked = 0;

	if (syscall(SYS_ioctl, master, UNLOCK, &locked) < 0)
		return -1;
	return (int)syscall(SYS_ioctl, master, OPEN_PEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
}

int terminal_make(uint16_t rows, uint16_t columns, uid_t owner)
{
	int master = open_master("/dev/ptmx"), peer;

	if (master < 0)
		master = open_master("/dev/pts/ptmx");
	if (master < 0)
		return -1;
	peer = open_peer(master);
	if (peer < 0 || fchown(peer, owner, (gid_t)-1) < 0 ||
		syscall(SYS_ioctl, peer, LEAD_ON, 0) < 0)
		return -1;
	terminal_resize(peer, rows, columns);
	for (int i = 0; i < 3; i++)
		if (dup2(peer, i) < 0)
			return -1;
	close(peer);
	return master;
}

void terminal_resize(int fd, uint16_t rows, uint16_t columns)
{
	const struct winsize size = { .ws_row = rows, .ws_col = columns };

	(void)syscall(SYS_ioctl, fd, SET_SIZE, &size);
}

int terminal_end(int fd)
{
	struct termios settings;

	if (tcgetattr(fd, &settings) < 0 || settings.c_cc[VEOF] == _POSIX_VDISABLE)
		return -1;
	return settings.c_cc[VEOF];
}
