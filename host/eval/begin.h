/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broken machine that a trial begins with.
 *
 * How it works. What break.sh makes of the image is made once and kept as the scenario's template;
 * the machine is a clone of it. Where there can't be such a template, a machine of the image is
 * started and broken for this trial alone. Either way break.sh has ended well in the very state
 * that the trial begins with.
 */
#ifndef BEGIN_H
#define BEGIN_H

#include "trial_state.h"

/* False when the trial is over already: unscored, or interrupted. */
bool begin_broken(struct trial *t, struct err *err);
/* Is the disk that the trial's stands on still what it was? False, with the cause, when somebody
 * removed the template or built the image anew meanwhile. */
bool begin_holds(const struct trial *t, struct err *err);

#endif
