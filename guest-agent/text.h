/* SPDX-License-Identifier: Apache-2.0 */
/* Short texts without printf and scanf, which weigh more than all the rest of the agent. */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A text that grows in somebody's buffer. It always ends with a NUL, and is cut when it is full. */
struct text {
	char *at, *end;
	bool cut;
};

struct text text_in(char *buf, size_t size);
void text_add(struct text *t, const char *s);
void text_add_part(struct text *t, const char *s, size_t len);
void text_add_number(struct text *t, uint64_t n);

/* Takes the decimal number that stands at *at. False: there is none, or it is too large. */
bool text_number(const char **at, uint64_t *ret_number);

#endif
