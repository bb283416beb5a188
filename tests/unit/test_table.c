/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a run, and its JSON. */
#include "eval/table.h"

#include <string.h>

#include "test.h"

static const char trials_text[] =
	"[{\"scenario\":\"one\",\"trial\":1,\"verdict\":\"pass\",\"reason\":\"\","
	"\"stages\":{\"live\":{\"ran\":true,\"passed\":true,\"ok\":[\"c\"],\"failed\":[]},"
	"\"boot\":{\"ran\":true,\"passed\":true,\"ok\":[\"c\",\"d\"],\"failed\":[]}},"
	"\"ended\":{\"how\":\"answered\"},\"turns\":4,\"seconds\":{\"all\":84.7}},"
	"{\"scenario\":\"the-other\",\"trial\":12,\"verdict\":\"fail\",\"reason\":\"boot: a, b\","
	"\"stages\":{\"live\":{\"ran\":true,\"passed\":true,\"ok\":[\"c\"],\"failed\":[]},"
	"\"boot\":{\"ran\":true,\"passed\":false,\"ok\":[\"c\"],\"failed\":[\"a\",\"b\"]}},"
	"\"ended\":{\"how\":\"turns\",\"limit\":12},\"turns\":12,\"seconds\":{\"all\":120}},"
	"{\"scenario\":\"one\",\"trial\":2,\"verdict\":\"unscored\","
	"\"reason\":\"worker ended by signal 9\"}]";

TEST(rows_line_up_and_say_why)
{
	struct err err = { 0 };
	CLEAN(json) struct json *trials = json_parse(trials_text, strlen(trials_text), &err);
	CLEAN(buf) struct buf out = { 0 };

	table_text(trials, 3, "runs/x", &out);
	CHECK_STR(buf_text(&out),
		"scenario   trial  verdict   turns  seconds  ended       checks\n"
		"one            1  pass          4       84  answered    live 1/1  boot 2/2\n"
		"    live  ok     c\n"
		"    boot  ok     c d\n"
		"the-other     12  fail         12      120  turns (12)  live 1/1  boot 1/3\n"
		"    live  ok     c\n"
		"    boot  ok     c\n"
		"    boot  FAILED a b\n"
		"one            2  unscored      0        0  -           live not run  boot not "
		"run\n"
		"    worker ended by signal 9\n"
		"\n"
		"1 of 3 passed, 1 unscored\n"
		"transcripts: runs/x/SCENARIO/TRIAL/transcript.jsonl\n");
}

TEST(unfinished_trials_are_counted)
{
	CLEAN(json) struct json *trials = json_array();
	CLEAN(buf) struct buf out = { 0 };

	table_text(trials, 4, "runs/x", &out);
	CHECK_STR(buf_text(&out), "\n0 of 4 passed; interrupted, 4 not finished\n"
				  "transcripts: runs/x/SCENARIO/TRIAL/transcript.jsonl\n");
}

TEST(json_has_one_line_per_trial_and_a_summary)
{
	struct err err = { 0 };
	CLEAN(json) struct json *trials = json_parse(trials_text, strlen(trials_text), &err);
	CLEAN(buf) struct buf out = { 0 };
	const char *last;

	table_json(trials, 3, "runs/x", &out);
	last = strstr(buf_text(&out), "{\"planned\"");
	CHECK(last);
	CHECK_STR(last, "{\"planned\":3,\"trials\":3,\"passed\":1,\"failed\":1,\"unscored\":1,"
			"\"folder\":\"runs/x\"}\n");
}
