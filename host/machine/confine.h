/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What QEMU gives up before it runs, so that a guest that breaks into it finds nothing of the host.
 *
 * How it works. Each machine's QEMU is confined to that machine's files. The parent prepares
 * (confine_new), the child enters just before it becomes QEMU (confine_enter), and tells through a
 * pipe which measures are in force (confine_told). One that this host does not offer is left out
 * and told: no machine fails for that. QEMU's own filter, which refuses new programs, is not among
 * them; without it QEMU does not start.
 */
#ifndef CONFINE_H
#define CONFINE_H

#include "base/json.h"
#include "machine.h"

enum measure {
	CONFINE_FILES,	    /* Landlock: the files of this machine and no others */
	CONFINE_NETWORK,    /* a network namespace of its own, without any device that is up */
	CONFINE_CALLS,	    /* no sockets, and no other system calls that it has no use for */
	CONFINE_PRIVILEGES, /* none to gain, and of root's none but to open others' files */
	CONFINE_LIMITS,	    /* core, descriptors, size of files, memory */
	CONFINE_MEASURES,
};

struct confinement {
	int why[CONFINE_MEASURES]; /* 0: it is in force; else the errno that says why not */
	int landlock;		   /* version of the kernel's; 0: none */
};

/* Static text: what it is about, and what to do where it is missing. */
const char *confine_name(enum measure measure);
const char *confine_remedy(enum measure measure);

/* One sentence on how it is kept, or on why not. Returns owned. */
char *confinement_text(const struct confinement *c, enum measure measure);
/* {"files": {"in_force": true, "text": "..."}, ...}. Returns owned. */
struct json *confinement_json(const struct confinement *c);

struct confine;

/* spec NULL: no machine, so no files of one. */
struct confine *confine_new(const struct machine_spec *spec, enum accel accel);
void confine_free(struct confine *c);

static inline void confine_clean(struct confine **c)
{
	confine_free(*c);
}

/* For process_spec.enter. */
bool confine_enter(const void *self);
/* What the child told, once it runs. Once. */
void confine_told(struct confine *c, struct confinement *ret_confinement);

/* Starts QEMU under all measures, to tell its version. */
bool confine_try(struct confinement *ret_confinement, struct err *err);

#endif
