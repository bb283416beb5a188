/* SPDX-License-Identifier: Apache-2.0 */
/* postern shell: a login shell in a new machine that is gone afterwards, or in a named one. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "ending.h"
#include "environment.h"
#include "foreground.h"

/* What login(1) would do, by means that every image has. */
static const char *const login[] = {
	"sh",
	"-c",
	"if USER=$(id -un 2>/dev/null); then eval \"HOME=~$USER\"; else USER=$(id -u); fi\n"
	"case ${HOME-} in /*) ;; *) HOME=/ ;; esac\n"
	"cd \"$HOME\" 2>/dev/null || cd /\n"
	"LOGNAME=$USER SHELL=$(command -v bash || echo /bin/sh)\n"
	"export USER LOGNAME HOME SHELL\n"
	"exec \"$SHELL\" -l\n",
	NULL,
};

struct options {
	const char *image, *machine, *user;
	bool help;
};

/* Returns 0, or the exit code of a wrong use: that of exec. */
static int parse(struct options *o, int argc, char **argv)
{
	static const struct option longs[] = { { "help", no_argument, NULL, 'h' }, { 0 } };
	struct err err;
	int option;

	while ((option = getopt_long(argc, argv, "+:hi:n:u:", longs, NULL)) != -1) {
		if (option == 'h') {
			o->help = true;
			return 0;
		}
		if (option == ':' || option == '?') {
			option_refused(option, argv, &err);
			return usage_error(&cmd_shell, "%s", err.text), EXIT_OURS;
		}
		if (!*optarg)
			return usage_error(&cmd_shell, "-%c '': want %s", option,
				       option == 'u'   ? "a user of the guest, a name or a number"
				       : option == 'n' ? "the name of a machine"
						       : "the name of an image"),
			       EXIT_OURS;
		*(option == 'i' ? &o->image : option == 'n' ? &o->machine : &o->user) = optarg;
	}
	if (o->image && o->machine)
		return usage_error(&cmd_shell, "-i makes a new machine, -n is one that runs: give "
					       "one of them"),
		       EXIT_OURS;
	if (!o->image)
		o->image = "mini";
	if (optind != argc)
		return usage_error(&cmd_shell, "%s: it takes no command; postern exec --tty does",
			       argv[optind]),
		       EXIT_OURS;
	return 0;
}

static int run(int argc, char **argv)
{
	struct options o = { 0 };
	struct environment env = { 0 };
	struct foreground_spec spec = {
		.who = "shell", .argv = login, .env = env.pairs, .input = true, .terminal = true
	};
	int code = parse(&o, argc, argv);

	if (code)
		return code;
	if (o.help)
		return usage_help(&cmd_shell);
	environment_fill(&env, false, true);
	spec.image_name = o.image;
	spec.machine_name = o.machine;
	spec.user = o.user;
	if (isatty(STDIN_FILENO) && !o.machine)
		fprintf(stderr,
			"postern shell: starting a machine from the image %s; leave it with exit "
			"or "
			"Ctrl-D, or end it with Ctrl-] three times within a second\n",
			o.image);
	code = foreground_run(&spec);
	environment_release(&env);
	return code;
}

const struct cli_command cmd_shell = {
	.name = "shell",
	.args = "[-i IMAGE | -n NAME] [-u USER]",
	.does = "Open a shell in a new virtual machine that is gone afterwards, or in a named one",
	.details =
		"  -i IMAGE  the image to boot: mini (busybox, the default) or\n"
		"            server (Debian with systemd and nginx)\n"
		"  -n NAME   in this machine of postern up instead, which stays\n"
		"  -u USER   be this user of the guest, a name or a number (root)\n\n"
		"A login shell on your terminal: bash where the image has it, else sh. Every key "
		"goes to\n"
		"the guest, Ctrl-C and Ctrl-Z too. Leave with exit or Ctrl-D. When the guest "
		"hangs, press\n"
		"Ctrl-] three times within a second: that ends the machine; while it boots, "
		"Ctrl-C does.\n"
		"The machine has no network, and nothing in it is kept. With -n the machine "
		"stays, and\n"
		"Ctrl-] ends the shell alone.\n\n"
		"Exit code: the shell's own; 125 when postern failed, was used wrongly, or was "
		"left by\n"
		"Ctrl-].\n\n"
		"Example: postern shell -i server\n",
	.run = run,
};
