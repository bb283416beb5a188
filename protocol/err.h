/* SPDX-License-Identifier: Apache-2.0 */
/* One failure: a code to decide by and one sentence for people. */
#ifndef ERR_H
#define ERR_H

#include <stdbool.h>

enum err_code {
	ERR_NONE,
	ERR_SYSTEM,	 /* the operating system refused */
	ERR_PEER,	 /* the other side broke the protocol, or is gone */
	ERR_DENIED,	 /* refused by a rule */
	ERR_LIMIT,	 /* too large or too many */
	ERR_INPUT,	 /* wrong use, or a file the user wrote is wrong */
	ERR_TIME,	 /* a deadline passed */
	ERR_INTERRUPTED, /* the user asked to stop */
};

/* Owned by the caller who asked. Never allocates, needs no release. */
struct err {
	enum err_code code;
	char text[512];
};

/* Says what went wrong. Always returns false, so that a failing function can end in one line. */
bool err_set(struct err *err, enum err_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The same, and ": " and the text of errno. */
bool err_errno(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts what we were doing in front of what went wrong. Always returns false. */
bool err_in(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
