/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of one running machine share. */
#ifndef INTERNAL_H
#define INTERNAL_H

#include "base/process.h"
#include "confine.h"
#include "console.h"
#include "machine.h"
#include "migrate.h"
#include "qmp.h"

#define WORD_MAX 64

struct machine {
	struct loop *loop;
	const struct image *image;
	enum accel accel;

	struct process *qemu;
	struct confinement confinement;
	struct source ending; /* the end of QEMU */
	struct qmp *qmp;
	struct console *console;
	struct console *words; /* of QEMU: stdout and stderr */
	struct session *session;

	enum migration migration;
	unsigned resets, splits;
	bool port_closed;	 /* by the guest, after it was open */
	bool ended_from_outside; /* a signal to QEMU, not the guest */
	bool disk_full;		 /* a write of the guest found no room on the host, so it stopped */
	bool disk_broken;	 /* the same for any other reason */
	char system[WORD_MAX];	 /* what the ready command said last */
};

/* story.c */
/* Turns the failure of a wait into the machine's story, unless it was the user's wish. */
bool machine_fail(const struct machine *m, const char *what, struct err *err);

#endif
