/* SPDX-License-Identifier: Apache-2.0 */
/* Failures as values. */
#include "err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	err->code = code;
	va_start(ap, fmt);
	(void)vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return false;
}

bool err_errno(struct err *err, const char *fmt, ...)
{
	const char *why = strerror(errno);
	char doing[sizeof(err->text)];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(doing, sizeof(doing), fmt, ap);
	va_end(ap);
	return err_set(err, ERR_SYSTEM, "%s: %s", doing, why);
}

bool err_in(struct err *err, const char *fmt, ...)
{
	struct err inner = *err;
	char doing[sizeof(inner.text)];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(doing, sizeof(doing), fmt, ap);
	va_end(ap);
	return err_set(err, inner.code, "%s: %s", doing, inner.text);
}
