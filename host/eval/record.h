/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of one trial. trial.json is written last: where it is, the trial is finished.
 *
 * Text from a guest becomes JSON through record_text alone, so that all of it is UTF-8.
 */
#ifndef RECORD_H
#define RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "err.h"

struct record {
	const char *folder; /* borrowed */
	int transcript;	    /* transcript.jsonl, owned */
	int64_t start;	    /* on clock_ms() */
	bool failed;	    /* an event could not be written: err says why */
	struct err err;
};

/* Makes the folder and commands/ in it. */
bool record_open(struct record *r, const char *folder, struct err *err);
void record_release(struct record *r);

/* One line of the transcript. Takes the event, adds "seconds" since the start. */
void record_event(struct record *r, struct json *event);
/* A whole file. */
bool record_json(const struct record *r, const char *name, const struct json *j, struct err *err);

/* Path of a file of the trial, owned. */
char *record_path(const struct record *r, const char *name);
/* Untrusted bytes as a JSON string of at most max bytes. */
struct json *record_text(const void *untrusted_data, size_t len, size_t max);
/* Now, "2026-01-31T12:00:00Z". */
struct json *record_now(void);

#endif
