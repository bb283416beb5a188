/* SPDX-License-Identifier: Apache-2.0 */
/* Text that a guest wrote, made fit for a person's terminal. */
#ifndef TEXT_H
#define TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "buf.h"

/* Where in a character of UTF-8 a text is; all 0 first. */
struct taming {
	uint8_t due;	   /* bytes of it that are still to come */
	uint8_t low, high; /* what the next one may be */
};

/*
 * Puts '?' in place of every control character but tab, newline and carriage return, so that no
 * escape sequence reaches the terminal. Bytes from 80 to 9F are controls too, to a terminal of 8
 * bits and to one that decodes carelessly, unless they are a part of a well-formed character.
 */
void text_tame(struct taming *t, char *data, size_t len);

/*
 * Adds the last lines that hold anything, joined by " | ": printable, colour codes taken out,
 * each cut to a bearable length.
 */
void text_last_lines(struct buf *out, const char *untrusted_text, size_t len, int lines);

#endif
