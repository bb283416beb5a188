/* SPDX-License-Identifier: Apache-2.0 */
/* The service: one session after the other on one channel. */
#ifndef AGENT_H
#define AGENT_H

#include <stdbool.h>

struct agent_place {
	int channel;	   /* inherited socket, -1: the virtio port */
	int ready;	   /* becomes readable or ends when the system is there; -1: it is */
	bool enter_system; /* the system has a root of its own, that of PID 1 */
	bool owns_machine; /* POWEROFF ends the machine, not the program alone */
	bool is_init;	   /* we are PID 1 */
	bool steps_aside;  /* ends when another program holds the port */
};

/* Serves until the machine ends, or the inherited socket does. Borrows place for ever. */
_Noreturn void agent_run(const struct agent_place *place);

/* What it is made of: a begin, and turns that each wait once and do what is due. */
void agent_begin(const struct agent_place *place);
void agent_turn(void);

#endif
