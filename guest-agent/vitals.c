/* SPDX-License-Identifier: Apache-2.0 */
/* Uptime, pressure-stall figures, boot id. */
#include "vitals.h"

#include <string.h>
#include <time.h>

#include "kernfs.h"
#include "text.h"

/* "some avg10=1.23 avg60=...": percent with two decimals. */
static uint16_t pressure(const char *file)
{
	char text[256];
	const char *at;
	uint64_t whole, part;

	if (!kernfs_read(kernfs_proc(), file, text, sizeof(text)))
		return PRESSURE_UNKNOWN;
	at = strstr(text, "avg10=");
	if (!at)
		return PRESSURE_UNKNOWN;
	at += strlen("avg10=");
	if (!text_number(&at, &whole) || *at++ != '.' || !text_number(&at, &part) || whole > 100 ||
		part > 99)
		return PRESSURE_UNKNOWN;
	return (uint16_t)(whole * 100 + part);
}

void vitals_read(struct msg_pong *m)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	m->uptime_ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
	m->cpu = pressure("pressure/cpu");
	m->memory = pressure("pressure/memory");
	m->io = pressure("pressure/io");
}

void vitals_boot_id(uint8_t ret_id[16])
{
	char text[64] = "";
	size_t n = 0;

	memset(ret_id, 0, 16);
	(void)kernfs_read(kernfs_proc(), "sys/kernel/random/boot_id", text, sizeof(text));
	/* Hexadecimal, with dashes. */
	for (const char *p = text; *p && n < 32; p++) {
		int digit = *p >= 'a' ? *p - 'a' + 10 : *p - '0';

		if (*p == '-')
			continue;
		ret_id[n / 2] = (uint8_t)(ret_id[n / 2] << 4 | (digit & 15));
		n++;
	}
}
