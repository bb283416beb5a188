/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look at a hostile disk: `subject cat|stat|lstat|hash|find|getfattr PATH`.
 *
 * The disk is mounted at /subject. Each path is resolved as if that were the root: an honest
 * absolute link works, a hostile one finds nothing outside. Nothing but regular files is read.
 *
 *	cat       the bytes of a file
 *	stat      TYPE MODE UID GID SIZE MTIME PATH: one letter (f d l p s c b), octal, seconds
 *	lstat     the same without following the last part; of a link also -> TARGET
 *	hash      SHA-256 and path of a file
 *	find      path and all paths below it, one a line; follows no link, enters no mount
 *	getfattr  NAME=HEX, one a line, of a file or folder
 *
 * Control bytes and backslashes in names are written \xNN. Ends with 0; with 1 and a sentence on
 * stderr when something is missing or refused; with 2 after wrong use.
 */
#ifndef SUBJECT_H
#define SUBJECT_H

#include <stdbool.h>

/* Is this the name under which the agent is that program? */
bool subject_is(const char *program);
int subject_main(int argc, char **argv);

#endif
