/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as servers and models accept it: no surrogates, nothing overlong, nothing past U+10FFFF. */
#ifndef UTF8_H
#define UTF8_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Length of the character at p, 0 when there is none within left bytes; ret_char as code point. */
size_t utf8_char(const unsigned char *p, size_t left, uint32_t *ret_char);

/* Adds text; every byte that belongs to no character becomes U+FFFD. */
void utf8_repair(const void *untrusted_data, size_t len, struct buf *out);

#endif
