/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks a healthy machine as the scenario says. */
#ifndef INJECT_H
#define INJECT_H

#include "base/buf.h"
#include "link/session.h"
#include "scenario.h"

/*
 * Sends files/ to a tmpfs of the machine, runs break.sh and removes the files. Adds what the script
 * said to out. False when the machine is not broken the way it should be.
 */
bool inject(struct session *s, const struct scenario *scenario, int factor, struct buf *out,
	struct err *err);

#endif
