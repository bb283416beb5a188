/* SPDX-License-Identifier: Apache-2.0 */
/* One attempt of one model at one scenario, from boot to verdict. */
#include "trial.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "begin.h"
#include "trial_state.h"

#define BOOT_MS	    120000 /* x factor: from power-on to a system that is up */
#define FREEZE_MS   20000  /* x factor */
#define POWER_MS    20000  /* x factor: from the power button to the end */
#define DISK_SPARE  (32 << 20)
#define SCRIPT_SEEN 16384 /* bytes of a script's output in the transcript */

static const char system_message[] =
	"You are an experienced system administrator. You are root on a Debian machine that has a "
	"problem, with one tool: a shell that runs one command at a time. Commands are not "
	"interactive: nobody can type into them and there is no terminal. The machine has no "
	"network connection. Find the cause of the problem and repair it in such a way that the "
	"repair survives a reboot; change nothing else. When you are done, say so in plain text "
	"without calling the tool: that ends your work.";

/* A machine that is not sealed is none. */
static bool start(struct trial *t, const char *overlay, const char *below, const char *console,
	struct err *err)
{
	CLEAN(str) char *disk = record_path(&t->record, overlay);
	CLEAN(str) char *log = record_path(&t->record, console);
	const struct machine_spec spec = {
		.image = t->spec->image,
		.overlay = disk,
		.below = below,
		.console_log = log,
		.memory_mib = t->spec->scenario->front.memory_mib,
	};

	t->machine = machine_start(&t->loop, &spec, err);
	if (!t->machine || !machine_prove_sealed(t->machine, err))
		return trial_unscored(t, "starting the machine", err);
	return true;
}

static enum shell_end run_for_model(void *self, const char *command, int64_t timeout_s,
	size_t max_output, struct buf *out, struct err *err)
{
	struct trial *t = self;

	return shell_command(&t->shell, command, timeout_s, max_output, out, err);
}

static void record_for_model(void *self, struct json *event)
{
	struct trial *t = self;

	record_event(&t->record, event);
}

static void say_turn(void *self, int turn, const char *what)
{
	CLEAN(str) char *line = xasprintf("turn %d: %s", turn, what);

	trial_say(self, line);
}

static bool converse(struct trial *t, struct err *err)
{
	const struct talk_spec spec = {
		.url = t->spec->model->url,
		.key = t->spec->model->key,
		.system = system_message,
		.user = t->spec->scenario->instruction,
		.turns = t->spec->turns,
		.time_ms = t->spec->time_ms,
		.shell = run_for_model,
		.record = record_for_model,
		.progress = say_turn,
		.self = t,
	};

	if (!talk_run(&t->loop, &spec, &t->talk, err))
		return trial_unscored(t, "talking to the model", err);
	if (t->talk.end == TALK_SERVER) {
		err_set(err, ERR_PEER, "%s", t->talk.reason);
		return trial_unscored(t, "the model server failed", err);
	}
	t->ended = talk_end_name(t->talk.end);
	if (t->talk.end == TALK_OFF || t->talk.end == TALK_CLOSED)
		(void)snprintf(t->grade.lost, sizeof(t->grade.lost), "%s", t->shell.why);
	return true;
}

static bool run_script(struct trial *t, const char *text, struct err *err)
{
	CLEAN(buf) struct buf seen = { 0 };
	enum shell_end end = shell_script(&t->shell, text, SCRIPT_SEEN, &seen, err);

	trial_note(t, "script", buf_text(&seen));
	switch (end) {
	case SHELL_HOST:
		return trial_unscored(t, "running the script", err);
	case SHELL_OFF:
	case SHELL_CLOSED:
		t->ended = talk_end_name(end == SHELL_OFF ? TALK_OFF : TALK_CLOSED);
		(void)snprintf(t->grade.lost, sizeof(t->grade.lost), "%s", t->shell.why);
		return true;
	case SHELL_RAN:
		break;
	}
	t->ended = t->shell.last.timed_out ? talk_end_name(TALK_TIME) : "script";
	return true;
}

static bool act(struct trial *t, struct err *err)
{
	const struct model *model = t->spec->model;
	bool ok = true;

	shell_init(
		&t->shell, &t->loop, t->machine, &t->record, t->factor, clock_in(t->spec->time_ms));
	switch (model->kind) {
	case MODEL_NOTHING:
		t->ended = "nothing";
		break;
	case MODEL_SOLUTION:
		trial_say(t, "running fix.sh");
		ok = run_script(t, t->spec->scenario->fix_sh, err);
		break;
	case MODEL_SCRIPT:
		trial_say(t, "running the script");
		ok = run_script(t, model->script, err);
		break;
	case MODEL_SERVER:
		trial_say(t, "waiting for the model");
		ok = converse(t, err);
		break;
	}
	trial_phase_ends(t, PHASE_MODEL);
	return ok;
}

/* The machine has done its work. What only the host can have done to it decides the trial. */
static void let_go(struct trial *t)
{
	const char *fault = t->machine ? machine_host_fault(t->machine) : NULL;

	if (fault && !t->grade.unscored[0])
		(void)snprintf(t->grade.unscored, sizeof(t->grade.unscored), "%s", fault);
	machine_free(t->machine);
	t->machine = NULL;
}

/* The machine went away while its disk was split. A guest may well have ended it. */
static bool lost_in_split(struct trial *t, struct err *err)
{
	CLEAN(str) char *story = NULL;

	if (err->code == ERR_INTERRUPTED || machine_state(t->machine) == MACHINE_RUNS)
		return trial_unscored(t, "splitting the disk", err);
	story = machine_story(t->machine);
	(void)snprintf(t->grade.lost, sizeof(t->grade.lost), "%s", story);
	t->power_cut = true;
	return true;
}

/* The disk as the model left it, complete; afterwards the machine writes elsewhere. */
static bool split(struct trial *t, struct err *err)
{
	CLEAN(str) char *above = record_path(&t->record, "above.qcow2");
	struct session *s = machine_session(t->machine);
	int64_t freeze = (int64_t)FREEZE_MS * t->factor;

	if (!machine_stop(t->machine, err) || !machine_split(t->machine, above, err) ||
		!machine_cont(t->machine, err))
		return lost_in_split(t, err);
	if (session_heal(s, clock_in(freeze), err))
		return true;
	if (err->code == ERR_INTERRUPTED)
		return false;
	(void)snprintf(t->grade.lost, sizeof(t->grade.lost),
		"the machine could not be woken after the freeze: %.400s", err->text);
	return true;
}

/* No freeze to be had: the power button, and if nobody minds it, the plug. */
static bool power_down(struct trial *t, struct err *err)
{
	int64_t limit = clock_in((int64_t)POWER_MS * t->factor);

	if (machine_state(t->machine) == MACHINE_RUNS &&
		!machine_powerdown(t->machine, limit, err) && err->code == ERR_INTERRUPTED)
		return false;
	t->power_cut = machine_state(t->machine) != MACHINE_OFF;
	trial_note(t, "power", t->power_cut ? "cut" : "off by the power button");
	let_go(t);
	return true;
}

static bool end_work(struct trial *t, struct err *err)
{
	int64_t freeze = (int64_t)FREEZE_MS * t->factor;
	bool ok = true;

	trial_say(t, "freezing the disk");
	if (t->grade.lost[0]) {
		ok = power_down(t, err);
	} else if (session_prepare(
			   machine_session(t->machine), (uint32_t)freeze, clock_in(freeze), err)) {
		ok = split(t, err);
	} else if (err->code == ERR_INTERRUPTED) {
		ok = false;
	} else {
		(void)snprintf(t->grade.lost, sizeof(t->grade.lost),
			"the machine would not freeze its disk: %.400s", err->text);
		ok = power_down(t, err);
	}
	trial_phase_ends(t, PHASE_END);
	return ok;
}

static void remove_file(struct trial *t, const char *name)
{
	CLEAN(str) char *path = record_path(&t->record, name);

	(void)unlink(path);
}

static bool judge_live(struct trial *t, struct err *err)
{
	if (!t->grade.lost[0]) {
		trial_say(t, "checking live");
		if (!stage_run(t->machine, t->spec->scenario, t->spec->scenario->live_sh, t->factor,
			    &t->grade.live, err))
			return trial_unscored(t, "the live check", err);
	}
	let_go(t);
	remove_file(t, "above.qcow2");
	trial_phase_ends(t, PHASE_LIVE);
	return true;
}

static bool boot_and_check(struct trial *t, struct err *err)
{
	CLEAN(str) char *below = record_path(&t->record, "overlay.qcow2");
	CLEAN(str) char *above = record_path(&t->record, "boot.qcow2");
	struct stage *stage = &t->grade.boot;

	if (!begin_holds(t, err) || !overlay_create(above, below, err))
		return trial_unscored(t, "making the disk of the cold boot", err);
	if (!start(t, "boot.qcow2", below, "console-boot.log", err))
		return false;
	if (machine_wait_ready(t->machine, clock_in((int64_t)BOOT_MS * t->factor), err))
		return stage_run(t->machine, t->spec->scenario, t->spec->scenario->boot_sh,
			       t->factor, stage, err) ||
		       trial_unscored(t, "the boot check", err);
	if (err->code == ERR_INTERRUPTED)
		return false;
	(void)snprintf(stage->reason, sizeof(stage->reason), "the machine did not come up: %.400s",
		err->text);
	return true;
}

static bool judge_boot(struct trial *t, struct err *err)
{
	bool ok;

	trial_say(t, "checking a cold boot");
	ok = boot_and_check(t, err);
	let_go(t);
	remove_file(t, "boot.qcow2");
	trial_phase_ends(t, PHASE_BOOT_STAGE);
	return ok;
}

/* A full disk of the host stops the machine: that is no fault of the guest. */
static void look_at_disk(struct trial *t)
{
	struct statvfs fs;

	if (statvfs(t->spec->folder, &fs) < 0 || fs.f_bavail * fs.f_frsize >= DISK_SPARE)
		return;
	(void)snprintf(t->grade.unscored, sizeof(t->grade.unscored),
		"the host's disk is full: make room and run it again");
}

static bool play(struct trial *t, struct err *err)
{
	return begin_broken(t, err) && act(t, err) && end_work(t, err) && judge_live(t, err) &&
	       judge_boot(t, err);
}

static enum trial_exit record_it(struct trial *t, struct err *err)
{
	struct json *grade = NULL;
	bool ok;

	look_at_disk(t);
	grade_judge(&t->grade);
	grade = grade_json(&t->grade);
	ok = record_json(&t->record, "grade.json", grade, err) && trial_finish(t, err);
	json_free(grade);
	if (ok && t->record.failed)
		ok = err_set(err, t->record.err.code, "%s", t->record.err.text);
	if (!ok)
		trial_say(t, err->text);
	return ok ? TRIAL_DONE : TRIAL_FAILED;
}

enum trial_exit trial_run(const struct trial_spec *spec)
{
	struct trial t = { .spec = spec, .phase_start = clock_ms(), .started = record_now() };
	enum trial_exit end;
	struct err err = { 0 };

	t.factor = accel_time_factor(spec->accel);
	if (!loop_init(&t.loop, true, &err) || !record_open(&t.record, spec->folder, &err)) {
		trial_say(&t, err.text);
		return TRIAL_FAILED;
	}
	if (!play(&t, &err) && t.host_failed)
		(void)snprintf(t.grade.unscored, sizeof(t.grade.unscored), "%s", err.text);
	let_go(&t);
	remove_file(&t, "above.qcow2");
	remove_file(&t, "boot.qcow2");
	end = t.loop.interrupted ? TRIAL_INTERRUPTED : record_it(&t, &err);
	grade_release(&t.grade);
	free(t.start_reason);
	free(t.template);
	free(t.stands_on);
	json_free(t.started);
	record_release(&t.record);
	loop_release(&t.loop);
	return end;
}
