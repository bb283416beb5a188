/* SPDX-License-Identifier: Apache-2.0 */
/* One check, run in one machine. */
#include "stage.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "capture.h"

#define PUT_MS	    10000  /* x factor */
#define CHECK_MS    180000 /* x factor */
#define GRACE_MS    2000
#define STDOUT_MAX  (256 << 10)
#define STDERR_KEEP (16 << 10) /* of its begin, and of its end */
#define TOOLBOX_MAX (8 << 20)

/* Runs a command of the machine itself: in its root, with its PATH. */
static const char machine_script[] = "#!/checks/bin/busybox sh\n" SEARCH_PATH_PAIR "\n"
				     "export PATH LANG=C.UTF-8 SYSTEMD_PAGER=cat\n"
				     "unset CHECKS MACHINE\n"
				     "exec /checks/bin/busybox nsenter -t 1 -m -- \"$@\"\n";

static const char *const check_env[] = {
	"PATH=/checks/bin",
	"CHECKS=/checks",
	"MACHINE=/proc/1/root",
	"HOME=/checks",
	"LANG=C",
	NULL,
};

struct outputs {
	struct capture out, err;
};

static size_t take_output(
	void *self, enum stream_part part, const uint8_t *untrusted_data, size_t len)
{
	struct outputs *o = self;

	return capture_add(part == PART_STDERR ? &o->err : &o->out, part, untrusted_data, len);
}

struct work {
	struct session *session;
	int factor;
	struct stage *stage;
};

/* A failure of the guest goes into the stage; returns false with err set for one of ours. */
static bool blame(struct work *w, const char *doing, struct err *err)
{
	if (err->code == ERR_INTERRUPTED)
		return false;
	(void)snprintf(w->stage->reason, sizeof(w->stage->reason), "%s: %.400s", doing, err->text);
	return true;
}

static bool put(struct work *w, const char *path, unsigned mode, const char *data, size_t len,
	struct err *err)
{
	if (w->stage->reason[0])
		return true;
	if (session_put(
		    w->session, path, mode, data, len, clock_in((int64_t)PUT_MS * w->factor), err))
		return true;
	return blame(w, "putting the check into the machine", err);
}

static bool put_all(
	struct work *w, const struct scenario *scenario, const char *check, struct err *err)
{
	CLEAN(str) char *toolbox = image_toolbox();
	CLEAN(buf) struct buf busybox = { 0 };

	if (!file_read(toolbox, TOOLBOX_MAX, &busybox, err))
		return false;
	return put(w, "/checks/bin/busybox", 0755, busybox.data, busybox.len, err) &&
	       put(w, "/checks/bin/machine", 0755, machine_script, strlen(machine_script), err) &&
	       put(w, "/checks/tap.sh", 0644, scenario->tap_sh, strlen(scenario->tap_sh), err) &&
	       put(w, "/checks/check.sh", 0644, check, strlen(check), err);
}

/* False with err set for one of ours; the guest's part is in ret_result or the stage. */
static bool run(struct work *w, const char *const *argv, int64_t limit_ms, struct outputs *outputs,
	struct command_result *ret_result, struct err *err)
{
	const struct command_spec spec = {
		.argv = argv,
		.env = check_env,
		.agent_root = true,
		.deadline_ms = (uint32_t)limit_ms,
		.grace_ms = GRACE_MS,
		.output = outputs ? take_output : NULL,
		.self = outputs,
	};
	int64_t hard = clock_in(limit_ms + GRACE_MS + (int64_t)PUT_MS * w->factor);

	if (command_run(w->session, &spec, hard, ret_result, err))
		return true;
	return blame(w, "the check did not end", err);
}

static bool install(struct work *w, struct err *err)
{
	static const char *const argv[] = { "/checks/bin/busybox", "--install", "-s", "/checks/bin",
		NULL };
	struct command_result result = { 0 };

	if (!run(w, argv, (int64_t)PUT_MS * w->factor, NULL, &result, err))
		return false;
	if (!w->stage->reason[0] && (result.end != COMMAND_EXITED || result.value))
		(void)snprintf(w->stage->reason, sizeof(w->stage->reason),
			"the tools of the check can't be set up in the machine%s%s",
			result.text[0] ? ": " : "", result.text);
	return true;
}

/* Whether the check ended in a way that lets its words count. */
static void judge_end(struct stage *stage, const struct command_result *r, int64_t limit_ms)
{
	char *reason = stage->reason;
	size_t room = sizeof(stage->reason);

	if (r->timed_out)
		(void)snprintf(reason, room, "the check did not end within %lld s",
			(long long)(limit_ms / 1000));
	else if (r->end == COMMAND_SIGNALLED)
		(void)snprintf(reason, room, "the check was ended by signal %d", r->value);
	else if (r->end == COMMAND_FAILED)
		(void)snprintf(reason, room, "the check could not be run: %s", r->text);
	else if (r->end != COMMAND_EXITED)
		(void)snprintf(reason, room, "the machine was lost during the check: %s", r->text);
	else if (r->value > 1)
		(void)snprintf(reason, room,
			"the check ended with exit code %d; grade.json has what it said", r->value);
}

static void judge_output(struct stage *stage, const struct outputs *o)
{
	CLEAN(buf) struct buf untrusted_text = { 0 };
	struct err err;

	capture_join(&o->out, &untrusted_text);
	if (!tap_parse(buf_text(&untrusted_text), untrusted_text.len, &stage->tap, &err) &&
		!stage->reason[0])
		(void)snprintf(stage->reason, sizeof(stage->reason), "the check's output: %.400s",
			err.text);
	if (o->out.bytes > STDOUT_MAX)
		(void)snprintf(stage->reason, sizeof(stage->reason),
			"the check wrote more than %d bytes", STDOUT_MAX);
}

static bool check_it(struct work *w, struct outputs *o, struct err *err)
{
	static const char *const argv[] = { "/checks/bin/busybox", "sh", "/checks/check.sh", NULL };
	const int64_t limit = (int64_t)CHECK_MS * w->factor;
	struct command_result result = { 0 };
	CLEAN(buf) struct buf diagnostics = { 0 };

	if (!run(w, argv, limit, o, &result, err))
		return false;
	w->stage->ran = true;
	if (!w->stage->reason[0])
		judge_end(w->stage, &result, limit);
	judge_output(w->stage, o);
	capture_join(&o->err, &diagnostics);
	w->stage->diagnostics = diagnostics.len ? buf_take(&diagnostics) : NULL;
	return true;
}

bool stage_run(struct machine *machine, const struct scenario *scenario, const char *check,
	int factor, struct stage *ret_stage, struct err *err)
{
	struct work w = { machine_session(machine), factor, ret_stage };
	struct outputs o = {
		.out = { .keep = STDOUT_MAX, .fd = -1 },
		.err = { .keep = STDERR_KEEP, .fd = -1 },
	};
	int64_t start = clock_ms();
	bool ok;

	*ret_stage = (struct stage){ 0 };
	ok = put_all(&w, scenario, check, err) && (w.stage->reason[0] || install(&w, err)) &&
	     (w.stage->reason[0] || check_it(&w, &o, err));
	capture_release(&o.out);
	capture_release(&o.err);
	ret_stage->seconds = (double)(clock_ms() - start) / 1000;
	return ok;
}

void stage_release(struct stage *stage)
{
	tap_release(&stage->tap);
	free(stage->diagnostics);
	*stage = (struct stage){ 0 };
}

bool stage_passed(const struct stage *stage)
{
	return stage->ran && !stage->reason[0] && stage->tap.len && !stage->tap.failed;
}
