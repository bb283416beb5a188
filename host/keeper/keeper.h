/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper of one named machine: a process of its own.
 *
 * How it works. `postern up` makes the machine's folder, forks the keeper and waits. The keeper has
 * a session of its own, no terminal, and holds the folder's lock as long as it lives; QEMU dies
 * with it. It starts the machine, tells `up` how that goes, and from then on has callers on two
 * sockets: the channel (switchboard.h) and questions about the whole machine (control.h). It ends
 * when it is told to (the folder goes with it) or when the machine does (ended.json then says why).
 * Until the machine is up it also ends when `up` is gone, and leaves nothing.
 */
#ifndef KEEPER_H
#define KEEPER_H

#include "base/loop.h"
#include "machine/template.h"
#include "place.h"

struct keeper_spec {
	const char *name, *image;
	int memory_mib; /* 0: the image's */
	/* A fork: begins as this machine is, or was at this snapshot of it; that has the same image
	 * and memory. NULL: it is new, or as that machine is now. */
	const char *from, *snapshot;
};

/* Starts a keeper and waits until its machine is up. Returns how long that took in ms, or -1: then
 * nothing is left. The loop should catch signals. Tells what takes long. */
int64_t keeper_start(struct loop *loop, const struct keeper_spec *spec, template_notice *notice,
	void *self, struct err *err);

/* The keeper's own process, from its fork to its end. Takes the place; told: the socket to `up`. */
_Noreturn void keeper_run(const struct keeper_spec *spec, struct place *place, int told);

#endif
