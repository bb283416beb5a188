/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks a healthy machine as the scenario says. */
#include "inject.h"

#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "capture.h"

#define FILES	  "/run/setup" /* the same in the environment below */
#define FILE_MS	  10000	       /* x factor */
#define SCRIPT_MS 60000	       /* x factor */
#define GRACE_MS  2000
#define OUTPUT	  (16 << 10) /* bytes of the begin and of the end that are kept */

/* The machine is still healthy here: whatever goes wrong is the scenario's fault or ours. */
static bool run(struct session *s, const char *const *argv, const struct buf *input, int64_t ms,
	struct buf *out, struct err *err)
{
	static const char *const env[] = { SEARCH_PATH_PAIR, "HOME=/root", "USER=root",
		"LOGNAME=root", "LANG=C.UTF-8", "SYSTEMD_PAGER=cat",
		"DEBIAN_FRONTEND=noninteractive", "FILES=/run/setup", NULL };
	CLEAN(capture) struct capture capture = { .keep = OUTPUT, .fd = -1 };
	const struct command_spec spec = {
		.argv = argv,
		.env = env,
		.deadline_ms = (uint32_t)ms,
		.grace_ms = GRACE_MS,
		.input = input ? buf_text(input) : NULL,
		.input_len = input ? input->len : 0,
		.output = capture_add,
		.self = &capture,
	};
	struct command_result r;

	if (!command_run(s, &spec, clock_in(ms + 2 * (int64_t)GRACE_MS), &r, err))
		return false;
	capture_join(&capture, out);
	if (r.timed_out)
		return err_set(err, ERR_INPUT, "not done within %lld s", (long long)(ms / 1000));
	if (r.end != COMMAND_EXITED)
		return err_set(err, ERR_INPUT, "ended by %s",
			r.end == COMMAND_SIGNALLED ? "a signal" : r.text);
	if (r.value)
		return err_set(err, ERR_INPUT, "ended with exit code %d; its last words: %.300s",
			r.value, buf_text(out) + (out->len > 300 ? out->len - 300 : 0));
	return true;
}

static bool send_files(
	struct session *s, const struct scenario *scenario, int64_t ms, struct err *err)
{
	for (size_t i = 0; i < scenario->files_len; i++) {
		const struct scenario_file *file = &scenario->files[i];
		CLEAN(str) char *path = xasprintf(FILES "/%s", file->path);
		const char *const argv[] = { "/bin/sh", "-euc",
			"mkdir -p \"${1%/*}\" && cat >\"$1\"", "sh", path, NULL };
		CLEAN(buf) struct buf out = { 0 };

		if (!run(s, argv, &file->data, ms, &out, err))
			return err_in(err, "sending files/%s", file->path);
	}
	return true;
}

bool inject(struct session *s, const struct scenario *scenario, int factor, struct buf *out,
	struct err *err)
{
	const char *const argv[] = { "/bin/sh", "-euc", scenario->break_sh, "sh", NULL };
	static const char *const tidy[] = { "/bin/rm", "-rf", FILES, NULL };
	int64_t ms = (int64_t)FILE_MS * factor;
	CLEAN(buf) struct buf nothing = { 0 };

	return send_files(s, scenario, ms, err) &&
	       run(s, argv, NULL, (int64_t)SCRIPT_MS * factor, out, err) &&
	       run(s, tidy, NULL, ms, &nothing, err);
}
