/* SPDX-License-Identifier: Apache-2.0 */
/* A machine has no network device, by QEMU's own account. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "machine/internal.h"
#include "machine/start.h"
#include "test.h"

#define LIMIT	  600
#define ANSWER_MS 60000
#define NETWORK	  0x02 /* class of PCI devices */

static struct json *ask(struct machine *m, const char *command)
{
	struct json *answer = NULL;
	struct err err;

	if (!qmp_call(m->qmp, command, NULL, clock_in(ANSWER_MS), &answer, &err))
		CHECK_STR(err.text, command);
	return answer;
}

static size_t count_devices(const struct json *buses)
{
	size_t n = 0;

	for (size_t bus = 0; bus < json_len(buses); bus++) {
		const struct json *devices = json_get(json_at(buses, bus), "devices");

		for (size_t i = 0; i < json_len(devices); i++, n++) {
			int64_t class = json_get_int(
				json_get(json_at(devices, i), "class_info"), "class", -1);

			printf("# PCI class %04llx\n", (unsigned long long)class);
			CHECK(class >> 8 != NETWORK);
		}
	}
	return n;
}

TEST_WITHIN(no_network_device_by_qmp, LIMIT)
{
	CLEAN(image) struct image image = { 0 };
	CLEAN(json) struct json *buses = NULL, *filters = NULL;
	struct machine *m;
	struct loop loop;
	struct err err;
	char *cold;

	CHECK(loop_init(&loop, false, &err));
	if (!image_open("mini", &image, &err))
		SKIP(err.text);
	m = machine_begin(&loop, &(struct start_spec){ .image = &image }, &cold, &err);
	CHECK_STR(m ? "" : err.text, "");
	buses = ask(m, "query-pci");
	CHECK(count_devices(buses) >= 3);
	filters = ask(m, "query-rx-filter");
	CHECK_INT(json_len(filters), 0);
	machine_free(m);
	free(cold);
	loop_release(&loop);
}
