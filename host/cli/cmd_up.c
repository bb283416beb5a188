/* SPDX-License-Identifier: Apache-2.0 */
/* postern up: a machine with a name, which stays until postern down. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "named.h"

#define MEMORY_MIN 64
#define MEMORY_MAX 1048576

enum { OPTION_MEMORY = LONG_OPTION };

static bool set_memory(struct keeper_spec *spec, const char *text)
{
	char *end;
	long mib = strtol(text, &end, 10);

	if (end == text || *end || mib < MEMORY_MIN || mib > MEMORY_MAX)
		return false;
	spec->memory_mib = (int)mib;
	return true;
}

/* False: a wrong use, which was told. */
static bool parse(struct keeper_spec *spec, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "memory", required_argument, NULL, OPTION_MEMORY },
		{ 0 },
	};
	struct err err;
	int option;

	while ((option = getopt_long(argc, argv, ":i:", longs, NULL)) != -1) {
		if (option == ':' || option == '?') {
			option_refused(option, argv, &err);
			return usage_error(&cmd_up, "%s", err.text), false;
		}
		if (option == 'i')
			spec->image = optarg;
		else if (!set_memory(spec, optarg))
			return usage_error(&cmd_up, "--memory %s: want MiB, from %d to %d", optarg,
				       MEMORY_MIN, MEMORY_MAX),
			       false;
	}
	if (argc - optind != 1)
		return usage_error(&cmd_up, "want one name for the machine"), false;
	spec->name = argv[optind];
	if (!place_check_name(spec->name, &err))
		return usage_error(&cmd_up, "%s", err.text), false;
	return true;
}

static int run(int argc, char **argv)
{
	struct keeper_spec spec = { .image = "mini" };

	if (usage_wants_help(argc, argv))
		return usage_help(&cmd_up);
	if (!parse(&spec, argc, argv))
		return 2;
	fprintf(stderr, "postern up: starting %s from the image %s\n", spec.name, spec.image);
	return start_named("up", &spec);
}

const struct cli_command cmd_up = {
	.name = "up",
	.args = "NAME [-i IMAGE] [--memory MIB]",
	.does = "Start a machine with a name, which stays",
	.details =
		"  NAME          up to 63 of a-z, 0-9, '.', '_' and '-', the first a letter or a "
		"digit\n"
		"  -i IMAGE      the image to start: mini (busybox, the default) or\n"
		"                server (Debian with systemd and nginx)\n"
		"  --memory MIB  of memory; with another size than the image's it is booted, which "
		"takes\n"
		"                longer\n\n"
		"The machine runs until postern down, its guest's power-off, or the end of the "
		"host, kept by\n"
		"a process of its own. postern exec, shell and cp use it by -n NAME or NAME:PATH, "
		"many at a\n"
		"time; postern reset makes it new. It has no network. Ctrl-C while it starts takes "
		"all away.\n\n"
		"Exit code: 0 it is up, 1 it is not, 2 wrong use.\n\n"
		"Example: postern up box -i server\n"
		"         postern exec -n box -- systemctl status nginx\n"
		"         postern down box\n",
	.run = run,
};
