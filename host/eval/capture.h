/* SPDX-License-Identifier: Apache-2.0 */
/* Output of a command as it comes: its begin and end in memory, nearly all of it in a file. */
#ifndef CAPTURE_H
#define CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "err.h"
#include "messages.h"

#define CAPTURE_FILE (16 << 20) /* bytes that go to the file */

struct capture {
	size_t keep; /* bytes of begin and of end that stay in memory */
	int fd;	     /* of the file, owned; -1: none */
	struct buf head, tail;
	uint64_t bytes;	     /* that came */
	uint64_t file_bytes; /* that went to the file */
	bool file_failed;
};

/* path NULL: no file. */
bool capture_open(struct capture *c, size_t keep, const char *path, struct err *err);
void capture_release(struct capture *c);

static inline void capture_clean(struct capture *c)
{
	capture_release(c);
}

/* For struct command_spec: streams are merged in order of arrival. */
size_t capture_add(void *capture, enum stream_part part, const uint8_t *untrusted_data, size_t len);

/* Is nothing missing in memory? */
bool capture_is_whole(const struct capture *c);
/* Adds what is in memory: the begin, then the end. */
void capture_join(const struct capture *c, struct buf *out);

#endif
