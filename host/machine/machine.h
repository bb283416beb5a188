/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One running VM: a QEMU process of ours, its control socket, its channel, its console.
 *
 * How it works. machine_start makes the process and returns while the guest boots. The process
 * shares two inherited socketpairs with us (control, channel), has a serial console that we keep
 * the end of, no network device and no default device, and dies with us. All of it are sources of
 * the loop. QEMU is confined to the files of its machine (confine.h); what it opens later comes as
 * a descriptor. A machine that ends, by itself or not, stays readable until machine_free.
 *
 * Errors say what is known: QEMU's status and last words, the last lines of the console.
 */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/loop.h"
#include "err.h"
#include "link/session.h"
#include "accel.h"
#include "image.h"

/* Where a machine's memory lives when it is not QEMU's own. */
enum memory {
	MEMORY_OWN,	/* gone with the machine */
	MEMORY_SHARED,	/* in memory_fd, which the machine writes to: it will become a template */
	MEMORY_PRIVATE, /* begins as memory_file says; what is written is gone with the machine */
	MEMORY_COPY,	/* in memory_fd, a copy of a template's: it will become another template */
	MEMORY_EMPTY, /* in memory_fd, to be filled by machine_copy_in: it will become a snapshot */
};

struct machine_spec {
	const struct image *image; /* borrowed until machine_free */
	const char *overlay;	 /* qcow2 that takes the writes; NULL when the image has no disk */
	const char *below;	 /* a disk that the overlay stands on, where it is neither the
				  * image's nor a template's. NULL: there is none */
	const char *console_log; /* file for the console, capped; NULL: only the tail is kept */
	int memory_mib;		 /* 0: the image's */
	enum memory memory;
	const char *memory_file; /* of MEMORY_PRIVATE */
	int memory_fd;		 /* where memory_is_given; borrowed during the start */
};

/* Is its memory in memory_fd? */
static inline bool memory_is_given(const struct machine_spec *spec)
{
	return spec->memory == MEMORY_SHARED || spec->memory == MEMORY_COPY ||
	       spec->memory == MEMORY_EMPTY;
}

/* Does it wait for a state, of a template or of another machine? */
static inline bool memory_goes_on(const struct machine_spec *spec)
{
	return spec->memory == MEMORY_PRIVATE || spec->memory == MEMORY_COPY ||
	       spec->memory == MEMORY_EMPTY;
}

struct machine;
struct confinement;

/* Borrows the loop. NULL on failure. */
struct machine *machine_start(struct loop *loop, const struct machine_spec *spec, struct err *err);
/* The same with a given accelerator, for the probe. */
struct machine *machine_start_on(
	struct loop *loop, const struct machine_spec *spec, enum accel accel, struct err *err);
/* Ends QEMU at once, reaps it, closes everything. NULL is fine. */
void machine_free(struct machine *m);

/* Owned by the machine. */
struct session *machine_session(struct machine *m);
enum accel machine_accel(const struct machine *m);

/* How its QEMU is confined (confine.h). */
const struct confinement *machine_confinement(const struct machine *m);

/* How long an untouched image may take to come up. */
int64_t machine_boot_ms(const struct machine *m);
/* The environment of our own commands in a guest, NULL-ended. */
extern const char *const machine_env[];

/* Waits for the first HELLO. Fails early when QEMU ends or the kernel panics. */
bool machine_wait_hello(struct machine *m, int64_t deadline, struct err *err);
/* The same, then the image's ready command: the system is up. */
bool machine_wait_ready(struct machine *m, int64_t deadline, struct err *err);
/* Reboots it as its root would, and waits until the system is up again. */
bool machine_reboot(struct machine *m, int64_t deadline, struct err *err);

enum machine_state {
	MACHINE_RUNS,
	MACHINE_OFF,	  /* the guest powered off: QEMU ended by itself, with status 0 */
	MACHINE_PANICKED, /* the kernel said so on the console; QEMU may still run */
	MACHINE_DIED,	  /* QEMU ended in any other way */
};
enum machine_state machine_state(const struct machine *m);
/* How often the guest was reset: 0 until it reboots. One reboot may count twice, since a kernel
 * tries several ways. */
unsigned machine_resets(const struct machine *m);
/* Is nobody at the guest's end of the channel any more? So it is during a reboot, and for good when
 * its agent is gone. */
bool machine_port_closed(const struct machine *m);
/* One sentence about what made it end or stop that no guest can do: the host's disk is full, or
 * QEMU was ended from outside. NULL: there is no such thing. Static text. */
const char *machine_host_fault(const struct machine *m);
/* One sentence about how it ended or what it does, from QEMU and the console. Returns owned. */
char *machine_story(const struct machine *m);

/*
 * Asks QEMU: true when no PCI device is a network controller, and every device that was added to
 * the machine type is one of those that we gave it.
 */
bool machine_is_sealed(struct machine *m, bool *ret_sealed, struct err *err);
/* ERR_DENIED for one that is not. */
bool machine_prove_sealed(struct machine *m, struct err *err);

/* Processor time that QEMU has used, guest and all. */
int64_t machine_cpu_ms(const struct machine *m);

/* Virtual CPUs. The disk is flushed when stop returns. */
bool machine_stop(struct machine *m, struct err *err);
bool machine_cont(struct machine *m, struct err *err);
/* All later writes go to a new file, made here; the overlay is then read-only for QEMU and
 * complete. */
bool machine_split(struct machine *m, const char *new_overlay, struct err *err);
/* Presses the power button and waits for the end. */
bool machine_powerdown(struct machine *m, int64_t deadline, struct err *err);

/* Saves the state of a stopped machine whose memory is given. It must not run again. */
bool machine_save(struct machine *m, struct buf *ret_state, int64_t deadline, struct err *err);
/* Copies all of a stopped machine to a file of at most so many bytes. It may go on afterwards, also
 * when that failed. */
bool machine_copy_out(struct machine *m, int file, int64_t max, int64_t deadline, struct err *err);
/* From there into one whose memory is empty, and which waits. It is stopped, and can be saved. */
bool machine_copy_in(struct machine *m, int file, int64_t deadline, struct err *err);
/* New random numbers, the time of day, a disk that takes writes. */
bool machine_heal(struct machine *m, int64_t deadline, struct err *err);
/* Wakes a machine whose memory goes on, which waits until then: loads the state, proves that it is
 * sealed, lets it run, waits for the HELLO, and heals it. */
bool machine_wake(struct machine *m, const struct buf *state, int64_t deadline, struct err *err);

/* Makes an empty qcow2 on top of a qcow2. */
bool overlay_create(const char *path, const char *backing, struct err *err);
/* As large as the guest sees the disk. False: it is no qcow2. */
bool overlay_size(const char *path, uint64_t *ret_size);

#endif
