/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a trial while it runs, and the trial.json that is made of it. */
#include "trial_state.h"

#include <string.h>
#include <sys/utsname.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/xalloc.h"

void trial_say(const struct trial *t, const char *what)
{
	CLEAN(str) char *line = xasprintf("%s\n", what);
	struct err ignored;

	(void)fd_write(t->spec->progress, line, strlen(line), &ignored);
}

void trial_note(struct trial *t, const char *event, const char *text)
{
	struct json *j = json_object();

	json_set_str(j, "type", event);
	if (text)
		json_set(j, "text", record_text(text, strlen(text), SIZE_MAX));
	record_event(&t->record, j);
}

void trial_phase_ends(struct trial *t, enum phase_name phase)
{
	int64_t now = clock_ms();

	t->seconds[phase] += (double)(now - t->phase_start) / 1000;
	t->phase_start = now;
}

bool trial_unscored(struct trial *t, const char *doing, struct err *err)
{
	t->host_failed = err->code != ERR_INTERRUPTED;
	return err_in(err, "%s", doing);
}

/* In the order of the trial; each only if it is there. */
static const char *const files[] = { "console.log", "transcript.jsonl", "commands",
	"console-boot.log", "overlay.qcow2", "grade.json" };

static struct json *files_json(const struct record *r)
{
	struct json *j = json_array();

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		CLEAN(str) char *path = record_path(r, files[i]);

		if (file_exists(path))
			json_add(j, json_string(files[i]));
	}
	return j;
}

static struct json *seconds_json(const struct trial *t)
{
	static const char *const names[PHASES] = {
		[PHASE_TEMPLATE] = "template",
		[PHASE_BOOT] = "boot",
		[PHASE_BREAK] = "break",
		[PHASE_MODEL] = "model",
		[PHASE_END] = "end",
		[PHASE_LIVE] = "live",
		[PHASE_BOOT_STAGE] = "boot_stage",
	};
	struct json *j = json_object();
	double all = 0;

	for (int i = 0; i < PHASES; i++) {
		json_set(j, names[i], json_number(t->seconds[i]));
		all += t->seconds[i];
	}
	json_set(j, "all", json_number(all));
	return j;
}

/* Which limit or act ended the model's work, and the limit's value where it was one. */
static struct json *ended_json(const struct trial *t)
{
	struct json *j = json_object();

	json_set_str(j, "how", t->ended);
	if (t->ended && !strcmp(t->ended, talk_end_name(TALK_TURNS)))
		json_set_int(j, "limit", t->spec->turns);
	if (t->ended && !strcmp(t->ended, talk_end_name(TALK_TIME)))
		json_set_int(j, "limit", t->spec->time_ms / 1000);
	if (t->talk.reason[0])
		json_set(j, "reason",
			record_text(
				t->talk.reason, strlen(t->talk.reason), sizeof(t->talk.reason)));
	return j;
}

static struct json *stage_numbers(const struct stage *stage)
{
	struct json *j = json_object();
	struct json *ok = json_set(j, "ok", json_array());
	struct json *failed = json_set(j, "failed", json_array());

	json_set_bool(j, "ran", stage->ran);
	json_set_bool(j, "passed", stage_passed(stage));
	for (size_t i = 0; i < stage->tap.len; i++)
		json_add(stage->tap.checks[i].ok ? ok : failed,
			json_string(stage->tap.checks[i].name));
	return j;
}

static void put_conditions(struct json *j, const struct trial_spec *spec)
{
	struct json *image = json_set(j, "image", json_object());
	struct utsname host;

	json_set_str(image, "name", spec->image->name);
	json_set_str(image, "recipe", spec->image->recipe);
	json_set_str(j, "accelerator", accel_name(spec->accel));
	json_set_str(j, "postern", VERSION);
	if (uname(&host) == 0)
		json_set_str(j, "host_kernel", host.release);
}

static void put_head(struct json *j, const struct trial_spec *spec)
{
	json_set_str(j, "scenario", spec->scenario->name);
	json_set_int(j, "trial", spec->number);
	json_set(j, "model", record_text(spec->model->given, strlen(spec->model->given), SIZE_MAX));
}

static void put_verdict(struct json *j, const struct grade *grade)
{
	struct json *stages;

	json_set_str(j, "verdict", verdict_name(grade->verdict));
	json_set(j, "reason",
		record_text(grade->reason, strlen(grade->reason), sizeof(grade->reason)));
	stages = json_set(j, "stages", json_object());
	json_set(stages, "live", stage_numbers(&grade->live));
	json_set(stages, "boot", stage_numbers(&grade->boot));
}

bool trial_finish(const struct trial *t, struct err *err)
{
	struct json *j = json_object();
	bool ok;

	put_head(j, t->spec);
	if (t->talk.model[0])
		json_set_str(j, "server_model", t->talk.model);
	put_verdict(j, &t->grade);
	json_set(j, "ended", ended_json(t));
	json_set_int(j, "turns", t->talk.turns);
	json_set_int(j, "calls", t->talk.calls);
	json_set_int(j, "prompt_tokens", t->talk.prompt_tokens);
	json_set_int(j, "completion_tokens", t->talk.completion_tokens);
	json_set(j, "seconds", seconds_json(t));
	json_set_str(j, "start", t->start);
	if (t->start_reason)
		json_set(j, "start_reason",
			record_text(t->start_reason, strlen(t->start_reason), SIZE_MAX));
	json_set_str(j, "template", t->template);
	json_set_bool(j, "sealed", t->sealed);
	if (t->sealed)
		json_set(j, "confinement", confinement_json(&t->confinement));
	json_set_bool(j, "power_cut", t->power_cut);
	put_conditions(j, t->spec);
	json_set(j, "started", json_copy(t->started));
	json_set(j, "finished", record_now());
	json_set(j, "files", files_json(&t->record));
	ok = record_json(&t->record, "trial.json", j, err);
	json_free(j);
	return ok;
}

bool trial_write_off(const struct trial_spec *spec, const char *reason, struct err *err)
{
	struct record r = { .folder = spec->folder, .transcript = -1 };
	struct json *j = json_object();
	struct grade grade = { .verdict = VERDICT_UNSCORED };
	bool ok;

	put_head(j, spec);
	strncpy(grade.reason, reason, sizeof(grade.reason) - 1);
	put_verdict(j, &grade);
	put_conditions(j, spec);
	json_set(j, "finished", record_now());
	json_set(j, "files", files_json(&r));
	ok = dir_make(spec->folder, err) && record_json(&r, "trial.json", j, err);
	json_free(j);
	return ok;
}
