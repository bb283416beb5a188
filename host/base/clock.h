/* SPDX-License-Identifier: Apache-2.0 */
/* The one clock of deadlines: milliseconds that never jump. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>

#define CLOCK_NEVER INT64_MAX

int64_t clock_ms(void);

/* That long from now; CLOCK_NEVER stays CLOCK_NEVER. */
int64_t clock_in(int64_t ms);

#endif
