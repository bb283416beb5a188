/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a machine says: the guest's serial console, or QEMU's own words.
 *
 * A source of the loop that reads all there is, so that the writer never waits. The end of the
 * text is kept in memory; its beginning goes to a file, up to a cap.
 */
#ifndef CONSOLE_H
#define CONSOLE_H

#include <stdbool.h>

#include "base/loop.h"
#include "err.h"

#define CONSOLE_KEPT   8192	 /* bytes of the end, at least */
#define CONSOLE_LOGGED (1 << 20) /* bytes of the beginning */

struct console;

/* Takes fd, non-blocking; borrows the loop. log: a new file, or NULL. NULL on failure. */
struct console *console_new(struct loop *loop, int fd, const char *log, struct err *err);
void console_free(struct console *c);

/* Reads what is there now, without the loop. */
void console_drain(struct console *c);

/* Did a kernel panic since the start, or since console_forget_panic? */
bool console_panicked(const struct console *c);
void console_forget_panic(struct console *c);

/* The last lines, printable, on one line; "" when nothing was said. Returns owned. */
char *console_last(const struct console *c, int lines);
/* The line of the panic, printable. Returns owned. */
char *console_panic(const struct console *c);

#endif
