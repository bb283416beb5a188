/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation that succeeds or ends the program. Sizes that a guest chose are bounded before. */
#ifndef XALLOC_H
#define XALLOC_H

#include <stddef.h>

/* Says so and ends the program. */
_Noreturn void out_of_memory(void);

/* All return owned memory: free() it. */
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *p, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *s, size_t len) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *fmt, ...)
	__attribute__((malloc, returns_nonnull, format(printf, 1, 2)));

#endif
