/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QEMU's control socket: one command at a time, events as they come.
 *
 * A source of the loop. It negotiates by itself; commands may be given at once.
 */
#ifndef QMP_H
#define QMP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/loop.h"
#include "err.h"

struct qmp;

/* data is borrowed during the call, and NULL when the event has none. */
typedef void qmp_event(void *self, const char *name, const struct json *data);

/* Takes fd, a non-blocking stream socket; borrows the loop. */
struct qmp *qmp_new(struct loop *loop, int fd, qmp_event *event, void *self);
void qmp_free(struct qmp *q);

/* Has QEMU said anything yet? */
bool qmp_greeted(const struct qmp *q);
/* Closed by QEMU, which ends or has ended. Asks the kernel, so needs no turn of the loop. */
bool qmp_closed(const struct qmp *q);
/* Reads what is there now, without the loop. */
void qmp_drain(struct qmp *q);

/* Takes arguments, NULL: none. The answer is owned by the caller; ret_answer may be NULL. */
bool qmp_call(struct qmp *q, const char *command, struct json *arguments, int64_t deadline,
	struct json **ret_answer, struct err *err);

/* Gives QEMU a copy of a descriptor, under a name for other commands. */
bool qmp_give_fd(struct qmp *q, const char *name, int fd, int64_t deadline, struct err *err);
/* The same for a file that commands name as /dev/fdset/SET. */
bool qmp_give_file(struct qmp *q, unsigned set, int fd, int64_t deadline, struct err *err);

#endif
