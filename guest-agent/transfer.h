/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET and PUT, as a child of the agent does them: between a blocking pipe and a file system.
 *
 * A child may hang on a dead disk or a huge folder; the channel does not. It runs in the root that
 * was asked for already, as root, and needs nothing there: no /proc, no /tmp, no shell.
 */
#ifndef TRANSFER_H
#define TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "messages.h"

struct transfer_result {
	int error;		 /* errno, 0 when it went well */
	uint64_t entries, bytes; /* bytes: of the stream, as DONE says them */
	char text[TEXT_MAX];	 /* what failed, in words that a user understands; printable */
};

/* Writes the tree stream of path to fd. */
bool transfer_send(int fd, const char *path, bool manifest, struct transfer_result *ret_result);
/* Reads a tree stream from fd up to its end and makes it at path. To cancel it, close the other
 * end: it then removes the file that is not complete. */
bool transfer_take(int fd, const char *path, struct transfer_result *ret_result);

#endif
