/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of one trial. */
#include "record.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "model/talk.h"

char *record_path(const struct record *r, const char *name)
{
	return xasprintf("%s/%s", r->folder, name);
}

bool record_open(struct record *r, const char *folder, struct err *err)
{
	CLEAN(str) char *commands = xasprintf("%s/commands", folder);
	CLEAN(str) char *transcript = xasprintf("%s/transcript.jsonl", folder);

	*r = (struct record){ .folder = folder, .transcript = -1, .start = clock_ms() };
	if (!dir_make(commands, err))
		return false;
	r->transcript = open(transcript, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	return r->transcript >= 0 || err_errno(err, "%s", transcript);
}

void record_release(struct record *r)
{
	fd_close(&r->transcript);
}

void record_event(struct record *r, struct json *event)
{
	CLEAN(str) char *line = NULL;
	CLEAN(str) char *ended = NULL;

	json_set(event, "seconds", json_number((double)(clock_ms() - r->start) / 1000));
	line = json_line(event);
	ended = xasprintf("%s\n", line);
	json_free(event);
	if (!r->failed && !fd_write(r->transcript, ended, strlen(ended), &r->err)) {
		err_in(&r->err, "%s/transcript.jsonl", r->folder);
		r->failed = true;
	}
}

bool record_json(const struct record *r, const char *name, const struct json *j, struct err *err)
{
	CLEAN(str) char *path = record_path(r, name);
	CLEAN(str) char *text = json_pretty(j);
	CLEAN(str) char *ended = xasprintf("%s\n", text);

	return file_write(path, ended, strlen(ended), err);
}

struct json *record_text(const void *untrusted_data, size_t len, size_t max)
{
	CLEAN(buf) struct buf text = { 0 };

	output_for_model(untrusted_data, len, max, &text);
	return json_string(buf_text(&text));
}

struct json *record_now(void)
{
	char text[CLOCK_STAMP];

	clock_stamp(text);
	return json_string(text);
}
