/* SPDX-License-Identifier: Apache-2.0 */
/* Says how a command is used. */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "command.h"

int usage_help(const struct cli_command *command)
{
	printf("usage: postern %s %s\n\n%s.\n\n%s", command->name, command->args, command->does,
		command->details);
	return 0;
}

bool usage_wants_help(int argc, char *const *argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return true;
	return false;
}

int usage_error(const struct cli_command *command, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "postern %s: ", command->name);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "; see postern %s --help\n", command->name);
	return 2;
}

char **usage_words(const struct cli_command *command, int argc, char **argv, int least, int most,
	const char *wanted)
{
	for (int i = 1; i < argc; i++)
		if (argv[i][0] == '-' && argv[i][1])
			return usage_error(command, "unknown option %s", argv[i]), NULL;
	if (argc - 1 < least || argc - 1 > most)
		return usage_error(command, "%s", wanted), NULL;
	return argv + 1;
}

bool option_refused(int returned, char *const *argv, struct err *err)
{
	const char letter[] = { '-', (char)optopt, 0 };
	/* Of a word of several letters, getopt_long may not be at the end yet. */
	const char *word = optopt && optopt < LONG_OPTION ? letter : argv[optind - 1];

	if (returned == ':')
		return err_set(err, ERR_INPUT, "%s needs a value", word);
	if (optopt >= LONG_OPTION)
		return err_set(err, ERR_INPUT, "%s: this option takes no value", word);
	return err_set(err, ERR_INPUT, "unknown option %s", word);
}
