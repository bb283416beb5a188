/* SPDX-License-Identifier: Apache-2.0 */
/* What people and programs see of a run, made of its trial.json files. Pure. */
#ifndef TABLE_H
#define TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/json.h"

struct tally {
	size_t trials, passed, failed, unscored;
};
/* trials: an array of what trial.json holds. */
struct tally table_count(const struct json *trials);

/* One row per trial, the counts, and where the transcripts are. planned: trials asked for. */
void table_text(const struct json *trials, size_t planned, const char *folder, struct buf *out);
/* One line per trial, then one with the counts. */
void table_json(const struct json *trials, size_t planned, const char *folder, struct buf *out);

#endif
