/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a machine, out of QEMU and into another.
 *
 * How it works. QEMU calls it a migration, to or from a socket whose end we hold. The machine's
 * memory stays out of it: it is a file that the next QEMU maps by itself (x-ignore-shared), so some
 * hundred kilobytes of devices go through the socket, whatever the machine's size. Of a machine
 * whose memory is in no file, all goes through it. QEMU tells by an event when it is done; the
 * owner of the control socket passes those on to migration_event.
 */
#ifndef MIGRATE_H
#define MIGRATE_H

#include "base/buf.h"
#include "qmp.h"

enum migration { MIGRATION_NONE, MIGRATION_DONE, MIGRATION_FAILED };

/* Takes note of a MIGRATION event. */
void migration_event(enum migration *progress, const struct json *data);

/* Of a machine that is stopped, but for its memory. Adds to ret_state. The machine must not run
 * again. */
bool state_save(struct loop *loop, struct qmp *qmp, enum migration *progress, struct buf *ret_state,
	int64_t deadline, struct err *err);
/* Into a machine that was started to wait for it. It is stopped then. */
bool state_load(struct loop *loop, struct qmp *qmp, enum migration *progress,
	const struct buf *state, int64_t deadline, struct err *err);

/* The same with the memory, to a file of at most so many bytes; the machine may go on afterwards,
 * also when it failed. */
bool whole_save(struct loop *loop, struct qmp *qmp, enum migration *progress, int file, int64_t max,
	int64_t deadline, struct err *err);
bool whole_load(struct loop *loop, struct qmp *qmp, enum migration *progress, int file,
	int64_t deadline, struct err *err);

#endif
