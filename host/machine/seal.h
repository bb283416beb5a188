/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proof, from QEMU itself, that a machine has no network device: no PCI device is a network
 * controller, and every device added to the machine type is one of those that we gave it.
 */
#ifndef SEAL_H
#define SEAL_H

#include "qmp.h"

bool seal_check(struct qmp *qmp, int64_t deadline, bool *ret_sealed, struct err *err);

#endif
