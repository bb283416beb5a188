/* SPDX-License-Identifier: Apache-2.0 */
/* What people and programs see of a run. */
#include "table.h"

#include <string.h>

#include "base/xalloc.h"

#define LINE_WIDTH 100

enum column { SCENARIO, TRIAL, VERDICT, TURNS, SECONDS, ENDED, CHECKS, COLUMNS };

static const char *const heads[COLUMNS] = { "scenario", "trial", "verdict", "turns", "seconds",
	"ended", "checks" };

static const char *verdict_of(const struct json *trial)
{
	const char *verdict = json_get_str(trial, "verdict");

	return verdict ? verdict : "unscored";
}

struct tally table_count(const struct json *trials)
{
	struct tally t = { .trials = json_len(trials) };

	for (size_t i = 0; i < t.trials; i++) {
		const char *verdict = verdict_of(json_at(trials, i));

		t.passed += !strcmp(verdict, "pass");
		t.failed += !strcmp(verdict, "fail");
		t.unscored += !strcmp(verdict, "unscored");
	}
	return t;
}

/* "live 5/5" or "boot not run". */
static void add_stage(struct buf *out, const struct json *trial, const char *name)
{
	const struct json *stage = json_get(json_get(trial, "stages"), name);
	size_t ok = json_len(json_get(stage, "ok")), failed = json_len(json_get(stage, "failed"));

	if (!json_get_bool(stage, "ran", false)) {
		buf_printf(out, "%s not run", name);
		return;
	}
	buf_printf(out, "%s %zu/%zu", name, ok, ok + failed);
	if (!failed && !json_get_bool(stage, "passed", false))
		buf_str(out, " broken");
}

static char *checks_cell(const struct json *trial)
{
	struct buf out = { 0 };

	add_stage(&out, trial, "live");
	buf_str(&out, "  ");
	add_stage(&out, trial, "boot");
	return buf_take(&out);
}

/* How the model's work ended: "answered", "turns (12)". */
static char *ended_cell(const struct json *trial)
{
	const struct json *ended = json_get(trial, "ended");
	const char *how = json_get_str(ended, "how");
	long long limit = json_get_int(ended, "limit", 0);

	return limit ? xasprintf("%s (%lld)", how, limit) : xstrdup(how ? how : "-");
}

static void make_row(const struct json *trial, char *cells[COLUMNS])
{
	const char *scenario = json_get_str(trial, "scenario");

	cells[SCENARIO] = xstrdup(scenario ? scenario : "?");
	cells[TRIAL] = xasprintf("%lld", (long long)json_get_int(trial, "trial", 0));
	cells[VERDICT] = xstrdup(verdict_of(trial));
	cells[TURNS] = xasprintf("%lld", (long long)json_get_int(trial, "turns", 0));
	cells[SECONDS] =
		xasprintf("%lld", (long long)json_get_int(json_get(trial, "seconds"), "all", 0));
	cells[ENDED] = ended_cell(trial);
	cells[CHECKS] = checks_cell(trial);
}

static void widen(size_t widths[COLUMNS], char *const cells[COLUMNS])
{
	for (int i = 0; i < COLUMNS; i++)
		if (strlen(cells[i]) > widths[i])
			widths[i] = strlen(cells[i]);
}

static void add_row(struct buf *out, const size_t widths[COLUMNS], const char *const cells[COLUMNS])
{
	for (int i = 0; i < COLUMNS - 1; i++)
		if (i == TRIAL || i == TURNS || i == SECONDS)
			buf_printf(out, "%*s  ", (int)widths[i], cells[i]);
		else
			buf_printf(out, "%-*s  ", (int)widths[i], cells[i]);
	buf_printf(out, "%s\n", cells[COLUMNS - 1]);
}

/* The names of checks behind their verdict, wrapped. */
static void add_names(struct buf *out, const char *head, const struct json *names)
{
	size_t width = strlen(head);

	if (!json_len(names))
		return;
	buf_str(out, head);
	for (size_t i = 0; i < json_len(names); i++) {
		const char *name = json_text(json_at(names, i));

		if (width + 1 + strlen(name) > LINE_WIDTH) {
			buf_printf(out, "\n%*s", (int)strlen(head), "");
			width = strlen(head);
		}
		buf_printf(out, " %s", name);
		width += 1 + strlen(name);
	}
	buf_str(out, "\n");
}

static void add_checks(struct buf *out, const struct json *trial)
{
	const struct json *stages = json_get(trial, "stages");

	add_names(out, "    live  ok    ", json_get(json_get(stages, "live"), "ok"));
	add_names(out, "    live  FAILED", json_get(json_get(stages, "live"), "failed"));
	add_names(out, "    boot  ok    ", json_get(json_get(stages, "boot"), "ok"));
	add_names(out, "    boot  FAILED", json_get(json_get(stages, "boot"), "failed"));
}

static bool stage_explains(const struct json *trial, const char *name)
{
	const struct json *stage = json_get(json_get(trial, "stages"), name);

	return json_get_bool(stage, "passed", false) || json_len(json_get(stage, "failed"));
}

/* The reason, when the names of the failed checks are not all there is to it. */
static void add_reason(struct buf *out, const struct json *trial)
{
	const char *reason = json_get_str(trial, "reason");

	if (!reason || !*reason || (stage_explains(trial, "live") && stage_explains(trial, "boot")))
		return;
	buf_printf(out, "    %s\n", reason);
}

static void add_rows(const struct json *trials, struct buf *out)
{
	char *(*rows)[COLUMNS] = xcalloc(json_len(trials) + 1, sizeof(*rows));
	size_t widths[COLUMNS];

	for (int i = 0; i < COLUMNS; i++)
		widths[i] = strlen(heads[i]);
	for (size_t i = 0; i < json_len(trials); i++) {
		make_row(json_at(trials, i), rows[i]);
		widen(widths, rows[i]);
	}
	add_row(out, widths, heads);
	for (size_t i = 0; i < json_len(trials); i++) {
		add_row(out, widths, (const char *const *)rows[i]);
		add_checks(out, json_at(trials, i));
		add_reason(out, json_at(trials, i));
		for (int c = 0; c < COLUMNS; c++)
			free(rows[i][c]);
	}
	free(rows);
}

void table_text(const struct json *trials, size_t planned, const char *folder, struct buf *out)
{
	struct tally t = table_count(trials);

	if (t.trials)
		add_rows(trials, out);
	buf_printf(out, "\n%zu of %zu passed", t.passed, planned);
	if (t.unscored)
		buf_printf(out, ", %zu unscored", t.unscored);
	if (t.trials < planned)
		buf_printf(out, "; interrupted, %zu not finished", planned - t.trials);
	if (planned == 1 && t.trials)
		buf_printf(out, "\ntranscript: %s/%s/1/transcript.jsonl\n", folder,
			json_get_str(json_at(trials, 0), "scenario"));
	else
		buf_printf(out, "\ntranscripts: %s/SCENARIO/TRIAL/transcript.jsonl\n", folder);
}

void table_json(const struct json *trials, size_t planned, const char *folder, struct buf *out)
{
	struct tally t = table_count(trials);
	CLEAN(json) struct json *summary = json_object();
	CLEAN(str) char *last = NULL;

	for (size_t i = 0; i < t.trials; i++) {
		CLEAN(str) char *line = json_line(json_at(trials, i));

		buf_printf(out, "%s\n", line);
	}
	json_set_int(summary, "planned", (int64_t)planned);
	json_set_int(summary, "trials", (int64_t)t.trials);
	json_set_int(summary, "passed", (int64_t)t.passed);
	json_set_int(summary, "failed", (int64_t)t.failed);
	json_set_int(summary, "unscored", (int64_t)t.unscored);
	json_set_str(summary, "folder", folder);
	last = json_line(summary);
	buf_printf(out, "%s\n", last);
}
