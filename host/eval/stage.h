/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One check, run in one machine.
 *
 * How it works. A static busybox, tap.sh and the check go over the channel into the agent's own
 * root, a tmpfs outside the distribution, and run there: nothing of them touches the disk, and no
 * tool of the distribution is used unless the check asks for it with `machine COMMAND`.
 */
#ifndef STAGE_H
#define STAGE_H

#include "machine/machine.h"
#include "scenario.h"
#include "tap.h"

/* Zeroed: did not run. */
struct stage {
	bool ran; /* the check was started and has ended, whatever it said */
	struct tap tap;
	char reason[512];  /* why the check says nothing that counts; "" when it does */
	char *diagnostics; /* its standard error, untrusted but bounded; owned or NULL */
	double seconds;
};

/* False only when the host failed or the user interrupted; what a guest can cause is in the stage.
 */
bool stage_run(struct machine *machine, const struct scenario *scenario, const char *check,
	int factor, struct stage *ret_stage, struct err *err);
void stage_release(struct stage *stage);

/* It ran, said TAP, and all of it is ok. */
bool stage_passed(const struct stage *stage);

#endif
