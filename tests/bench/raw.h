/* SPDX-License-Identifier: Apache-2.0 */
/* The host end of the raw port: asks what guest.c answers, with blocking calls and nothing else. */
#ifndef RAW_H
#define RAW_H

#include <stdbool.h>
#include <stddef.h>

#include "err.h"

struct raw {
	int fd; /* borrowed, blocking */
	char buf[65536];
	size_t at, len; /* unread bytes are buf[at..len) */
};

bool raw_echo(struct raw *raw, struct err *err);
bool raw_true(struct raw *raw, struct err *err);
/* So many bytes from the guest, and to it. `piped`: through a process at the far end. */
bool raw_out(struct raw *raw, size_t len, bool piped, struct err *err);
bool raw_in(struct raw *raw, const char *data, size_t len, bool piped, struct err *err);

#endif
