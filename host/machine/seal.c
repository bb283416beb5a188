/* SPDX-License-Identifier: Apache-2.0 */
/* Proof, from QEMU itself, that a machine has no network device. */
#include "seal.h"

#include <string.h>

#include "base/json.h"
#include "base/xalloc.h"
#include "qemu.h"

static bool network_among(const struct json *devices)
{
	for (size_t i = 0; i < json_len(devices); i++) {
		const struct json *device = json_at(devices, i);
		int64_t class = json_get_int(json_get(device, "class_info"), "class", 0x0200);

		if (class >> 8 == 0x02 ||
			network_among(json_get(json_get(device, "pci_bridge"), "devices")))
			return true;
	}
	return false;
}

static bool pci_has_network(struct qmp *qmp, int64_t deadline, bool *ret_has, struct err *err)
{
	CLEAN(json) struct json *buses = NULL;
	bool has = false, any = false;

	if (!qmp_call(qmp, "query-pci", NULL, deadline, &buses, err))
		return false;
	for (size_t i = 0; i < json_len(buses); i++) {
		const struct json *devices = json_get(json_at(buses, i), "devices");

		any = any || json_len(devices);
		has = has || network_among(devices);
	}
	*ret_has = has || !any;
	return true;
}

/* Has a folder of QEMU's object tree only devices that we gave? */
static bool only_expected(
	struct qmp *qmp, const char *path, int64_t deadline, bool *ret_only, struct err *err)
{
	struct json *arguments = json_object();
	CLEAN(json) struct json *list = NULL;

	json_set_str(arguments, "path", path);
	if (!qmp_call(qmp, "qom-list", arguments, deadline, &list, err))
		return false;
	*ret_only = true;
	for (size_t i = 0; i < json_len(list); i++) {
		const char *type = json_get_str(json_at(list, i), "type");
		CLEAN(str) char *device = NULL;

		if (!type || strncmp(type, "child<", 6) != 0)
			continue;
		device = xstrndup(type + 6, strcspn(type + 6, ">"));
		*ret_only = *ret_only && qemu_device_expected(device);
	}
	return true;
}

bool seal_check(struct qmp *qmp, int64_t deadline, bool *ret_sealed, struct err *err)
{
	bool network, named, unnamed;

	if (!pci_has_network(qmp, deadline, &network, err) ||
		!only_expected(qmp, "/machine/peripheral", deadline, &named, err) ||
		!only_expected(qmp, "/machine/peripheral-anon", deadline, &unnamed, err))
		return false;
	*ret_sealed = !network && named && unnamed;
	return true;
}
