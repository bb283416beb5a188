/* SPDX-License-Identifier: Apache-2.0 */
/* One subcommand: a line in the table of main.c, a file of its own. */
#ifndef COMMAND_H
#define COMMAND_H

#include "err.h"

/* Values of long options that have no letter begin here. */
#define LONG_OPTION 256

struct cli_command {
	const char *name;    /* "exec" */
	const char *args;    /* "[-i IMAGE] -- COMMAND [ARG…]" */
	const char *does;    /* one line */
	const char *details; /* options and an example, for --help */
	/* argv[0] is the name. Returns the exit code. */
	int (*run)(int argc, char **argv);
};

extern const struct cli_command cmd_exec, cmd_shell, cmd_run, cmd_doctor, cmd_template, cmd_up,
	cmd_down, cmd_reset, cmd_snapshot, cmd_restore, cmd_fork, cmd_ls, cmd_cp;

/* Prints how the command is used, returns 0. */
int usage_help(const struct cli_command *command);
/* Is one of the words --help or -h? For commands whose words are all postern's. */
bool usage_wants_help(int argc, char *const *argv);

/* The words of a command that has no options, so many; the one behind them is NULL. NULL: a wrong
 * use, which was told. */
char **usage_words(const struct cli_command *command, int argc, char **argv, int least, int most,
	const char *wanted);

/* Prints "postern NAME: message" and how to get help, returns 2. */
int usage_error(const struct cli_command *command, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* After getopt_long returned ':' or '?' (the short options begin with ':'): says which word it
 * could not take, and why. Always returns false. */
bool option_refused(int returned, char *const *argv, struct err *err);

#endif
