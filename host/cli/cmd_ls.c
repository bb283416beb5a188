/* SPDX-License-Identifier: Apache-2.0 */
/* postern ls: which named machines are there, and how they are. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "command.h"
#include "keeper/place.h"
#include "keeper/visit.h"

/* Returns an object with all of them, owned. */
static struct json *describe_all(void)
{
	struct json *all = json_object(), *machines = json_set(all, "machines", json_array());
	CLEAN(str) char *names = place_names();
	char *rest = names, *name;

	while (name = list_next(&rest), name) {
		struct json *one = visit_describe(name);

		if (one)
			json_add(machines, one);
	}
	return all;
}

static const char *text_of(const struct json *m, const char *key)
{
	const char *text = json_get_str(m, key);

	return text ? text : "-";
}

static void print_number(const struct json *m, const char *key, int width)
{
	if (json_is_number(json_get(m, key)))
		printf(" %*lld", width, (long long)json_get_int(m, key, 0));
	else
		printf(" %*s", width, "-");
}

static void print_one(const struct json *m)
{
	const char *why = json_get_str(m, "why");
	int64_t up = json_get_int(m, "uptime_s", -1);
	char uptime[32] = "-";

	if (up >= 0)
		(void)snprintf(uptime, sizeof(uptime), "%lld:%02d:%02d", (long long)(up / 3600),
			(int)(up / 60 % 60), (int)(up % 60));
	printf("%-16s %-10s %-11s", text_of(m, "name"), text_of(m, "image"), text_of(m, "state"));
	print_number(m, "memory_mib", 6);
	printf(" %9s", uptime);
	print_number(m, "operations", 10);
	printf("%s%s\n", why ? "  " : "", why ? why : "");
}

static int run(int argc, char **argv)
{
	bool as_json = argc == 2 && !strcmp(argv[1], "--json");
	struct json *all, *machines;

	if (usage_wants_help(argc, argv))
		return usage_help(&cmd_ls);
	if (argc > 1 && !as_json)
		return usage_error(&cmd_ls, "%s is not understood", argv[1]);
	all = describe_all();
	machines = json_get(all, "machines");
	if (as_json) {
		CLEAN(str) char *text = json_pretty(all);

		puts(text);
	} else if (json_len(machines)) {
		printf("%-16s %-10s %-11s %6s %9s %10s\n", "NAME", "IMAGE", "STATE", "MIB",
			"UPTIME", "OPERATIONS");
		for (size_t i = 0; i < json_len(machines); i++)
			print_one(json_at(machines, i));
	} else {
		puts("there are no machines: postern up NAME starts one");
	}
	json_free(all);
	return 0;
}

const struct cli_command cmd_ls = {
	.name = "ls",
	.args = "[--json]",
	.does = "List named machines, and what killed ones left behind",
	.details =
		"  --json  the same for programs\n\n"
		"STATE is up, starting, restarting (the guest reboots, or its agent is gone), "
		"ended (and\n"
		"why), left behind (its keeper was killed, and the machine with it) or busy (its "
		"keeper does\n"
		"not answer). postern down clears away what has ended or was left behind.\n\n"
		"Exit code: 0, 2 wrong use.\n\n"
		"Example: postern ls --json | jq -r '.machines[] | select(.state == \"up\") | "
		".name'\n",
	.run = run,
};
