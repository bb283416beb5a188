/* SPDX-License-Identifier: Apache-2.0 */
/* For a child: become the program that an EXEC asks for. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "messages.h"

/* The child stands in the right root. Returns never: it reports why not, and ends. */
_Noreturn void program_become(const struct msg_exec *m, int report);

#endif
