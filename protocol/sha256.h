/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4), for contents on their way and in manifests. */
#ifndef SHA256_H
#define SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
	uint32_t state[8];
	uint64_t bytes;
	uint8_t block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t len);
void sha256_end(struct sha256 *s, uint8_t ret_hash[32]);

#define SHA256_TEXT 65 /* a hash in hexadecimal digits, with its NUL */

/* The same, as text. */
void sha256_end_text(struct sha256 *s, char ret_text[SHA256_TEXT]);

#endif
