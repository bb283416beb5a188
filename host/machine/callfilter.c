/* SPDX-License-Identifier: Apache-2.0 */
/* A seccomp filter: a list of what is refused. */
#include "callfilter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
/* Calls that are newer than this list are as absent as on an older kernel; so are the second
 * numbers of all calls, which are higher. */
#define FIRST_NEWER 451

static const unsigned refused[] = {
	/* Sockets; io_uring makes and connects them too. */
	SYS_socket, SYS_connect, SYS_bind, SYS_io_uring_setup,
	/* Files by their path. */
	SYS_truncate, SYS_chmod, SYS_fchmodat, SYS_chown, SYS_lchown, SYS_fchownat, SYS_setxattr,
	SYS_lsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_utime, SYS_utimes, SYS_futimesat,
	SYS_utimensat,
	/* Other processes. */
	SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_getfd,
	SYS_pidfd_send_signal, SYS_tkill,
	/* What the kernel keeps for this user, and where it was often broken into. */
	SYS_keyctl, SYS_add_key, SYS_request_key, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd
};

/* Their first argument is a process: itself (or 0) and no other. */
static const unsigned to_itself[] = { SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo,
	SYS_rt_tgsigqueueinfo, SYS_prlimit64 };

enum {
	REFUSED = sizeof(refused) / sizeof(*refused),
	TO_ITSELF = sizeof(to_itself) / sizeof(*to_itself),
	LIST = 4, /* places in the filter */
	SECOND_LIST = LIST + REFUSED,
	ALLOW = SECOND_LIST + TO_ITSELF,
	WHOM,
	NOBODY,
	ITSELF,
	ALLOW_THAT,
	REFUSE,
	ABSENT,
	LENGTH,
};

_Static_assert(LENGTH < 250, "a jump reaches the answers");

#define LOAD(field)	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define GO(from, to)	    (unsigned char)((to) - (from)-1)
#define JUMP(test, k, y, n) BPF_JUMP(BPF_JMP | (test) | BPF_K, (k), (y), (n))

int callfilter_enter(void)
{
	struct sock_filter code[LENGTH] = {
		[0] = LOAD(arch),
		[1] = JUMP(BPF_JEQ, AUDIT_ARCH_X86_64, 0, GO(1, REFUSE)),
		[2] = LOAD(nr),
		[3] = JUMP(BPF_JGE, FIRST_NEWER, GO(3, ABSENT), 0),
		[ALLOW] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		[WHOM] = LOAD(args[0]), /* its lower half: x86 is little-endian */
		[NOBODY] = JUMP(BPF_JEQ, 0, GO(NOBODY, ALLOW_THAT), 0),
		[ITSELF] = JUMP(BPF_JEQ, (unsigned)getpid(), 0, GO(ITSELF, REFUSE)),
		[ALLOW_THAT] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		[REFUSE] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
		[ABSENT] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	};
	const struct sock_fprog program = { .len = LENGTH, .filter = code };

	for (int i = 0; i < REFUSED; i++)
		code[LIST + i] =
			(struct sock_filter)JUMP(BPF_JEQ, refused[i], GO(LIST + i, REFUSE), 0);
	for (int i = 0; i < TO_ITSELF; i++)
		code[SECOND_LIST + i] = (struct sock_filter)JUMP(
			BPF_JEQ, to_itself[i], GO(SECOND_LIST + i, WHOM), 0);
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? errno : 0;
}
#else
int callfilter_enter(void)
{
	return ENOSYS;
}
#endif
