/* SPDX-License-Identifier: Apache-2.0 */
/* Text that a guest wrote, made fit for a person's terminal. */
#ifndef TEXT_H
#define TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "buf.h"

/*
 * Puts '?' in place of every control character but tab, newline and carriage return, so that no
 * escape sequence reaches the terminal. before carries the last byte from piece to piece, 0 first.
 */
void text_tame(uint8_t *before, char *data, size_t len);

/*
 * Adds the last lines that hold anything, joined by " | ": printable, colour codes taken out,
 * each cut to a bearable length.
 */
void text_last_lines(struct buf *out, const char *untrusted_text, size_t len, int lines);

#endif
