/* SPDX-License-Identifier: Apache-2.0 */
/* Says how a command is used. */
#include <stdarg.h>
#include <stdio.h>

#include "command.h"

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
