/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as text: the words of the .vec files, which make bytes or a pattern of bytes.
 *
 * README.md lists them. Everything is big-endian, as on the wire.
 */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "err.h"
#include "wire.h"

#define TEXT_ROOM 300000 /* bytes of one line; more than a window */
#define TEXT_LETS 32

/* What names stand for. */
struct text_names {
	uint8_t nonce[16], epoch[16];
	const char *dir; /* a folder for this test alone */
	unsigned n;	 /* the turn of a loop */
	size_t lets;
	struct {
		const char *name, *words;
	} let[TEXT_LETS];
};

struct text {
	size_t len;
	bool open; /* anything may follow */
	uint8_t byte[TEXT_ROOM];
	bool any[TEXT_ROOM]; /* this byte may be anything */
};

/* Reads the words of a line. actual is what the pattern will be held against: strings of unknown
 * length take theirs from it. */
bool text_read(struct text *t, const char *words, const struct text_names *names,
	struct bytes actual, struct err *err);

/* False: *ret_at is the first byte that differs. */
bool text_matches(const struct text *t, struct bytes actual, size_t *ret_at);

#endif
