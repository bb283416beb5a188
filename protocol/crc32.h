/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32 as in zlib and PNG (polynomial 0xedb88320, reflected). */
#ifndef CRC32_H
#define CRC32_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32_of(const void *data, size_t len);

#endif
