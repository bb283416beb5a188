/* SPDX-License-Identifier: Apache-2.0 */
/* What assert() ends in. The C library's own would bring all of printf along. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Noreturn void __assert_fail(const char *what, const char *file, int line, const char *function);

_Noreturn void __assert_fail(const char *what, const char *file, int line, const char *function)
{
	static const char says[] = "agent: does not hold: ";

	(void)file;
	(void)line;
	(void)function;
	(void)!write(2, says, sizeof(says) - 1);
	(void)!write(2, what, strlen(what));
	(void)!write(2, "\n", 1);
	abort();
}
