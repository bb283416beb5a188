/* SPDX-License-Identifier: Apache-2.0 */
/* Entropy and wall clock. */
#include "heal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "limits.h"

/* musl comes without the kernel's headers, and its ioctl() takes a signed request. */
#define ADD_ENTROPY _IOW('R', 0x03, int[2]) /* RNDADDENTROPY */
#define RESEED	    _IO('R', 0x07)	    /* RNDRESEEDCRNG */

int heal_seed(struct bytes seed)
{
	struct {
		int bits, size;
		uint8_t data[SEED_MAX];
	} pool = { .bits = (int)seed.len * 8, .size = (int)seed.len };
	int fd, error = 0;

	if (!seed.len)
		return 0;
	fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	memcpy(pool.data, seed.data, seed.len);
	if (syscall(SYS_ioctl, fd, ADD_ENTROPY, &pool) < 0)
		error = errno;
	/* Old kernels do not know it, and some refuse while they are not seeded. */
	(void)syscall(SYS_ioctl, fd, RESEED, 0);
	close(fd);
	return error;
}

int heal_clock(uint64_t realtime_ns)
{
	const struct timespec now = {
		.tv_sec = (time_t)(realtime_ns / 1000000000),
		.tv_nsec = (long)(realtime_ns % 1000000000),
	};

	return realtime_ns && clock_settime(CLOCK_REALTIME, &now) < 0 ? errno : 0;
}
