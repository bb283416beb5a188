/* SPDX-License-Identifier: Apache-2.0 */
/* What takes long with a named machine, as its user sees it. */
#ifndef NAMED_H
#define NAMED_H

#include "base/json.h"
#include "keeper/keeper.h"

/* Tells how it goes, for a command of postern. Returns that command's exit code. */
int start_named(const char *command, const struct keeper_spec *spec);

/* Has its keeper do this (control.h), and tells how that goes. Returns what it has to tell, owned;
 * NULL: the failure was told. */
struct json *have_done(const char *command, const char *name, const char *line);

#endif
