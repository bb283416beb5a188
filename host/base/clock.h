/* SPDX-License-Identifier: Apache-2.0 */
/* The one clock of deadlines, milliseconds that never jump, and the time of day for records. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>

#define CLOCK_STAMP 32 /* bytes of a time as text */

#define CLOCK_NEVER INT64_MAX

int64_t clock_ms(void);

/* That long from now; CLOCK_NEVER stays CLOCK_NEVER. */
int64_t clock_in(int64_t ms);

/* The time of day as people and programs read it: 2026-01-31T12:00:00Z. */
void clock_stamp(char ret_text[CLOCK_STAMP]);

#endif
