/* SPDX-License-Identifier: Apache-2.0 */
/* Untrusted text on one line; output_for_model itself is in talk.h. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stddef.h>

/* The beginning of text as one printable line with a NUL, cut on a character's boundary. */
void output_line(const char *untrusted_text, char *ret_line, size_t size);

#endif
