/* SPDX-License-Identifier: Apache-2.0 */
/* What `subject` prints. */
#ifndef SUBJECT_OUT_H
#define SUBJECT_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

/* Standard output, gathered. Zeroed is empty; flush it at the end. */
struct out {
	bool broken; /* with errno: it can't be written */
	size_t len;
	uint8_t buf[4096];
};

void out_raw(struct out *out, struct bytes b);
void out_text(struct out *out, const char *s);
/* A name with its control bytes and backslashes as \xNN. */
void out_name(struct out *out, const char *name);
void out_number(struct out *out, uint64_t n, unsigned base);
void out_hex(struct out *out, struct bytes b);
bool out_flush(struct out *out);

/* "subject: PATH: WHY" on stderr; why NULL: the text of errno. Always returns false. */
bool subject_failed(const char *path, const char *why);

#endif
