/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which accelerator runs guests here. /dev/kvm may open, create VMs and still hang on a stock
 * kernel, so it is believed only after the mini image has really booted under it. The answer is
 * kept per host, kernel and QEMU.
 */
#ifndef ACCEL_H
#define ACCEL_H

#include <stdbool.h>

#include "base/loop.h"
#include "err.h"

enum accel { ACCEL_TCG, ACCEL_KVM };

/* Asks the memory, else probes; why says in one sentence what was found (static text). */
bool accel_choose(struct loop *loop, enum accel *ret_accel, const char **ret_why, struct err *err);
/* What to do about a why; NULL: nothing. Static text. */
const char *accel_remedy(const char *why);
const char *accel_name(enum accel accel);

/* Time limits are meant for KVM; emulation gets that many times more. */
int accel_time_factor(enum accel accel);

#endif
