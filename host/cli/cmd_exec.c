/* SPDX-License-Identifier: Apache-2.0 */
/* postern exec: one command in a new machine that is gone afterwards, or in a named one. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "ending.h"
#include "environment.h"
#include "foreground.h"

#define SECONDS_LIMIT 2000000

enum { OPTION_STDIN = LONG_OPTION, OPTION_TTY };

struct exec {
	struct foreground_spec spec;
	struct environment env;
	bool help;
};

static bool set_seconds(struct foreground_spec *spec, const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds > 0) || seconds > SECONDS_LIMIT)
		return false;
	spec->deadline_ms = (uint32_t)(seconds * 1000);
	if (!spec->deadline_ms)
		spec->deadline_ms = 1;
	return true;
}

/* Returns what is wrong with the value; NULL: nothing. */
static const char *take_option(struct exec *e, int option, const char *value)
{
	struct foreground_spec *spec = &e->spec;

	switch (option) {
	case 'i':
		spec->image_name = value;
		return *value ? NULL : "want the name of an image";
	case 'n':
		spec->machine_name = value;
		return *value ? NULL : "want the name of a machine";
	case 't':
		return set_seconds(spec, value) ? NULL : "want seconds, above 0 and up to 2000000";
	case 'w':
		spec->dir = value;
		return *value == '/' ? NULL : "want an absolute path of the guest";
	case 'u':
		spec->user = value;
		return *value ? NULL : "want a user of the guest, a name or a number";
	case OPTION_TTY:
		spec->terminal = true;
		/* fallthrough */
	case OPTION_STDIN:
		spec->input = true;
		return NULL;
	default:
		return environment_set(&e->env, value);
	}
}

/* Returns 0, or the exit code of a wrong use: ours, for 2 may be the guest program's own. */
static int parse(struct exec *e, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "stdin", no_argument, NULL, OPTION_STDIN },
		{ "tty", no_argument, NULL, OPTION_TTY },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	const char *wrong;
	struct err err;
	int option;

	while ((option = getopt_long(argc, argv, "+:hi:n:t:w:e:u:", longs, NULL)) != -1) {
		if (option == 'h') {
			e->help = true;
			return 0;
		}
		if (option == ':' || option == '?') {
			option_refused(option, argv, &err);
			return usage_error(&cmd_exec, "%s", err.text), EXIT_OURS;
		}
		wrong = take_option(e, option, optarg);
		if (wrong)
			return usage_error(&cmd_exec, "-%c '%s': %s", option, optarg, wrong),
			       EXIT_OURS;
	}
	if (e->spec.machine_name && e->spec.image_name)
		return usage_error(&cmd_exec, "-i makes a new machine, -n is one that runs: give "
					      "one of them"),
		       EXIT_OURS;
	if (!e->spec.image_name)
		e->spec.image_name = "mini";
	if (optind == argc)
		return usage_error(&cmd_exec, "no command given"), EXIT_OURS;
	e->spec.argv = (const char *const *)argv + optind;
	return 0;
}

static bool is_root(const char *user)
{
	return !user || !strcmp(user, "root") || !strcmp(user, "0");
}

static int run(int argc, char **argv)
{
	struct exec e = { .spec = { .who = "exec" } };
	int code = parse(&e, argc, argv);

	if (e.help) {
		code = usage_help(&cmd_exec);
	} else if (!code) {
		if (e.spec.terminal && !e.spec.machine_name && isatty(STDIN_FILENO))
			fprintf(stderr,
				"postern exec: starting a machine from the image %s; end it with "
				"Ctrl-] three times within a second\n",
				e.spec.image_name);
		environment_fill(&e.env, is_root(e.spec.user), e.spec.terminal);
		e.spec.env = e.env.pairs;
		code = foreground_run(&e.spec);
	}
	environment_release(&e.env);
	return code;
}

const struct cli_command cmd_exec = {
	.name = "exec",
	.args = "[-i IMAGE | -n NAME] [-t SECONDS] [-w DIR] [-e NAME=VALUE]… [-u USER] [--stdin] "
		"[--tty] -- "
		"COMMAND [ARG…]",
	.does = "Run one command in a new virtual machine that is gone afterwards, or in a named "
		"one",
	.details =
		"  -i IMAGE       the image to boot: mini (busybox, the default) or\n"
		"                 server (Debian with systemd and nginx)\n"
		"  -n NAME        in this machine of postern up instead, which stays\n"
		"  -t SECONDS     end the command after this: SIGTERM, 5 s later SIGKILL\n"
		"  -w DIR         run it in this directory of the guest, an absolute path (/)\n"
		"  -e NAME=VALUE  add to its environment\n"
		"  -u USER        run it as this user of the guest, a name or a number (root);\n"
		"                 HOME, USER, LOGNAME and SHELL are then left to -e\n"
		"  --stdin        pass on standard input, up to its end; else it is empty\n"
		"  --tty          run it on a terminal that is yours: every key goes to the "
		"guest,\n"
		"                 Ctrl-C and Ctrl-Z too, and all output comes as it is\n\n"
		"The machine has no network. The arguments reach the command exactly as given, "
		"with no\n"
		"shell between. Its output is passed on as it comes, and on a terminal control "
		"characters\n"
		"other than tab, newline and carriage return are shown as '?' unless --tty is "
		"given.\n"
		"When a guest with --tty hangs, press Ctrl-] three times within a second: that "
		"ends the\n"
		"machine, or with -n the command.\n\n"
		"Exit code: the command's own; 128+N when signal N ended it; 124 after -t; 125 "
		"when\n"
		"postern failed or was used wrongly; 126 when the command can't be executed; 127 "
		"when\n"
		"there is none of that name in the guest.\n\n"
		"Example: postern exec -t 30 -- sh -c 'uname -a; df -h'\n"
		"         tar c docs | postern exec --stdin -- sh -c 'tar x; ls docs'\n"
		"         postern exec --tty -i server -- top\n",
	.run = run,
};
