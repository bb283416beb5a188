/* SPDX-License-Identifier: Apache-2.0 */
/* For a child: do what a GET or PUT asks for, and report how it went. */
#ifndef CARRY_H
#define CARRY_H

#include <stdbool.h>

#include "wire.h"

/* GET: the tree at path goes to stdout. PUT: it comes from stdin. Both end the child. */
_Noreturn void carry_out(struct bytes path, bool manifest, int report);
_Noreturn void carry_in(struct bytes path, int report);

#endif
