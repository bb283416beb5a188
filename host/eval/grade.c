/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict of a trial, from what its machine did and what its checks said. */
#include "grade.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "record.h"

#define DIAGNOSTICS_MAX (32 << 10)

const char *verdict_name(enum verdict verdict)
{
	static const char *const names[] = { "pass", "fail", "unscored" };

	return names[verdict];
}

static void add_failures(struct buf *reason, const char *name, const struct stage *stage)
{
	if (stage_passed(stage))
		return;
	if (reason->len)
		buf_str(reason, "; ");
	buf_printf(reason, "%s: ", name);
	if (stage->reason[0]) {
		buf_str(reason, stage->reason);
		return;
	}
	if (!stage->ran)
		buf_str(reason, "not run");
	for (size_t i = 0, n = 0; i < stage->tap.len; i++)
		if (!stage->tap.checks[i].ok)
			buf_printf(reason, "%s%s", n++ ? ", " : "", stage->tap.checks[i].name);
}

void grade_judge(struct grade *grade)
{
	CLEAN(buf) struct buf reason = { 0 };

	if (grade->unscored[0]) {
		grade->verdict = VERDICT_UNSCORED;
		buf_str(&reason, grade->unscored);
	} else if (grade->lost[0]) {
		grade->verdict = VERDICT_FAIL;
		buf_str(&reason, grade->lost);
	} else if (stage_passed(&grade->live) && stage_passed(&grade->boot)) {
		grade->verdict = VERDICT_PASS;
	} else {
		grade->verdict = VERDICT_FAIL;
		add_failures(&reason, "live", &grade->live);
		add_failures(&reason, "boot", &grade->boot);
	}
	(void)snprintf(grade->reason, sizeof(grade->reason), "%s", buf_text(&reason));
}

static struct json *stage_json(const struct stage *stage)
{
	struct json *j = json_object();
	struct json *checks = json_set(j, "checks", json_array());

	for (size_t i = 0; i < stage->tap.len; i++) {
		const struct tap_check *c = &stage->tap.checks[i];
		struct json *check = json_add(checks, json_object());

		json_set_str(check, "name", c->name);
		json_set_bool(check, "ok", c->ok);
		if (c->diagnostics)
			json_set_str(check, "diagnostics", c->diagnostics);
	}
	json_set_bool(j, "ran", stage->ran);
	json_set_bool(j, "passed", stage_passed(stage));
	if (stage->reason[0])
		json_set(j, "reason",
			record_text(stage->reason, strlen(stage->reason), sizeof(stage->reason)));
	if (stage->diagnostics)
		json_set(j, "stderr",
			record_text(
				stage->diagnostics, strlen(stage->diagnostics), DIAGNOSTICS_MAX));
	json_set(j, "seconds", json_number(stage->seconds));
	return j;
}

struct json *grade_json(const struct grade *grade)
{
	struct json *j = json_object();
	struct json *stages;

	json_set_str(j, "verdict", verdict_name(grade->verdict));
	json_set(j, "reason",
		record_text(grade->reason, strlen(grade->reason), sizeof(grade->reason)));
	stages = json_set(j, "stages", json_object());
	json_set(stages, "live", stage_json(&grade->live));
	json_set(stages, "boot", stage_json(&grade->boot));
	return j;
}

void grade_release(struct grade *grade)
{
	stage_release(&grade->live);
	stage_release(&grade->boot);
}
