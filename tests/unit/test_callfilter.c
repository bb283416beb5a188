/* SPDX-License-Identifier: Apache-2.0 */
/* What QEMU's filter of system calls refuses and no command to a QEMU would show. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "machine/callfilter.h"
#include "test.h"

/* Each test is a process of its own, so the filter goes with it. */
TEST(the_filter_lets_it_reach_itself_alone)
{
	const struct rlimit none = { 0, 0 };
	const pid_t parent = getppid();

	CHECK(kill(parent, 0) == 0);
	CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_INT(callfilter_enter(), 0);
	CHECK(kill(parent, 0) < 0 && errno == EACCES);
	CHECK(syscall(SYS_tgkill, parent, parent, 0) < 0 && errno == EACCES);
	CHECK(syscall(SYS_tkill, parent, 0) < 0 && errno == EACCES);
	CHECK(prlimit(parent, RLIMIT_CORE, &none, NULL) < 0 && errno == EACCES);
	CHECK(utimensat(AT_FDCWD, "/tmp", NULL, 0) < 0 && errno == EACCES);
	CHECK(kill(getpid(), 0) == 0);
	CHECK(syscall(SYS_tgkill, getpid(), getpid(), 0) == 0);
	CHECK(prlimit(0, RLIMIT_CORE, &none, NULL) == 0);
	_exit(0); /* A leak checker's tracer would be refused too. */
}
