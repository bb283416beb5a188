/* SPDX-License-Identifier: Apache-2.0 */
/* The program: a table of subcommands. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

static const struct cli_command *const commands[] = { &cmd_run, &cmd_exec, &cmd_shell, &cmd_up,
	&cmd_down, &cmd_reset, &cmd_snapshot, &cmd_restore, &cmd_fork, &cmd_ls, &cmd_cp,
	&cmd_doctor, &cmd_template, NULL };

static int print_help(void)
{
	printf("usage: postern COMMAND …\n\n"
	       "Runs commands and trials in sealed virtual machines.\n\n");
	for (size_t i = 0; commands[i]; i++)
		printf("  %-9s %s\n", commands[i]->name, commands[i]->does);
	printf("\npostern COMMAND --help tells more; postern --version tells the version.\n"
	       "State lives in $POSTERN_HOME, else in ~/.local/share/postern.\n"
	       "Example: postern exec -- uname -a\n");
	return 0;
}

/* Descriptors of ours must not become 0, 1 or 2. A closed input is an empty one; a closed output
 * can't be written, and is not to look as if it were. */
static void fill_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && fd <= 2);
	close(fd);
}

/* Answers are lost if nobody can write them: a full disk must not look like success. */
static int flushed(int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	perror("postern: writing the output");
	return code ? code : 1;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	fill_standard_descriptors();
	signal(SIGPIPE, SIG_IGN);
	/* help COMMAND is COMMAND --help. */
	if (!strcmp(name, "help") && argc == 3) {
		name = argv[2];
		argv[2] = "--help";
	}
	if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help"))
		return flushed(print_help());
	if (!strcmp(name, "--version")) {
		puts("postern " VERSION);
		return flushed(0);
	}
	for (size_t i = 0; commands[i]; i++) {
		if (strcmp(name, commands[i]->name) != 0)
			continue;
		if (argc > 2 && usage_wants_help(2, argv + 1))
			return flushed(usage_help(commands[i]));
		return flushed(commands[i]->run(argc - 1, argv + 1));
	}
	if (*name)
		fprintf(stderr, "postern: there is no command '%s'; see postern --help\n", name);
	else
		fprintf(stderr, "postern: which command? see postern --help\n");
	return 2;
}
