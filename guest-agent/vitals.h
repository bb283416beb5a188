/* SPDX-License-Identifier: Apache-2.0 */
/* How the guest's kernel is: what a PONG tells. */
#ifndef VITALS_H
#define VITALS_H

#include "messages.h"

void vitals_read(struct msg_pong *m);

/* Of the kernel that runs; zeros when it does not say. */
void vitals_boot_id(uint8_t ret_id[16]);

#endif
