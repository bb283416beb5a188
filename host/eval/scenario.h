/* SPDX-License-Identifier: Apache-2.0 */
/* A scenario: its folder, read whole into memory. */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/clean.h"
#include "err.h"
#include "frontmatter.h"

#define SCRIPT_MAX (48 << 10) /* bytes of a script: it travels as one argument */
#define FILES_MAX  (16 << 20) /* bytes of all files for break.sh */

struct scenario_file {
	char *path; /* below files/; parts of [A-Za-z0-9._-], none begins with a dot */
	struct buf data;
};

/* Zeroed is empty. All owned. */
struct scenario {
	char *name; /* of the folder */
	struct front front;
	char *instruction; /* what the model is told */
	char *break_sh, *fix_sh, *live_sh, *boot_sh;
	char *tap_sh; /* ../lib/tap.sh, what the checks share */
	struct scenario_file *files;
	size_t files_len;
};

/* A folder, or the name of one in ./scenarios. Errors name the file, and its line where it has one.
 */
bool scenario_open(const char *name, struct scenario *ret_scenario, struct err *err);
void scenario_release(struct scenario *s);

/* Reads a script of at most SCRIPT_MAX bytes: without NUL, byte order mark and CR LF. Returns
 * owned, NULL on failure. */
char *script_read(const char *path, struct err *err);

static inline void scenario_clean(struct scenario *s)
{
	scenario_release(s);
}

#endif
