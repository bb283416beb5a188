/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation that succeeds or ends the program. */
#include "xalloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void out_of_memory(void)
{
	fputs("postern: the host is out of memory\n", stderr);
	exit(1);
}

static void *checked(void *p)
{
	if (!p)
		out_of_memory();
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	return checked(calloc(n, size));
}

void *xrealloc(void *p, size_t size)
{
	return checked(realloc(p, size));
}

char *xstrdup(const char *s)
{
	return checked(strdup(s));
}

char *xstrndup(const char *s, size_t len)
{
	return checked(strndup(s, len));
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;

	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) < 0)
		s = NULL;
	va_end(ap);
	return checked(s);
}
