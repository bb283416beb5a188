/* SPDX-License-Identifier: Apache-2.0 */
/* Uptime, pressure-stall figures, boot id. */
#include "vitals.h"

#include <string.h>

#include "kernfs.h"
#include "loop.h"
#include "text.h"

#define RENEW_MS 500 /* the kernel renews its averages every 2 s */

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

/* To read the three files takes longer than all else that a PING costs. */
static void pressures(struct msg_pong *m, uint64_t now)
{
	static struct msg_pong last;
	static uint64_t due;

	if (now >= due) {
		last.cpu = pressure("pressure/cpu");
		last.memory = pressure("pressure/memory");
		last.io = pressure("pressure/io");
		due = now + RENEW_MS;
	}
	m->cpu = last.cpu;
	m->memory = last.memory;
	m->io = last.io;
}

void vitals_read(struct msg_pong *m)
{
	m->uptime_ms = now_ms();
	pressures(m, m->uptime_ms);
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
