/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time, and the time of day as text. */
#include "clock.h"

#include <time.h>

int64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t clock_in(int64_t ms)
{
	return ms == CLOCK_NEVER ? ms : clock_ms() + ms;
}

void clock_stamp(char ret_text[CLOCK_STAMP])
{
	time_t now = time(NULL);
	struct tm utc = { 0 };

	gmtime_r(&now, &utc);
	(void)strftime(ret_text, CLOCK_STAMP, "%Y-%m-%dT%H:%M:%SZ", &utc);
}
