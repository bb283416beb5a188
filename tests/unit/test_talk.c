/* SPDX-License-Identifier: Apache-2.0 */
/* The turn loop and its rules, against a scripted server. */
#include "model/talk.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "fake_server.h"
#include "test.h"

#define REPLY(message, finish)                                                                     \
	"{\"id\":\"x\",\"model\":\"toy-1\",\"choices\":[{\"index\":0,\"message\":{" message        \
	"},\"finish_reason\":\"" finish "\"}],\"usage\":{\"prompt_tokens\":10.0,"                  \
	"\"completion_tokens\":5}}"
#define SAY(text)   REPLY("\"content\":\"" text "\"", "stop")
#define CALLS(list) REPLY("\"content\":null,\"tool_calls\":[" list "]", "tool_calls")
#define CALL(arguments)                                                                            \
	"{\"id\":\"a-very-long-id-of-the-server\",\"type\":\"function\",\"function\":"             \
	"{\"name\":\"exec_shell_command\",\"arguments\":\"" arguments "\"}}"
#define RUN(command) CALL("{\\\"command\\\":\\\"" command "\\\"}")

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct fixture {
	struct loop loop;
	struct fake_server server;
	struct talk_spec spec;
	struct talk_result result;
	struct err err;
	struct buf ran;	   /* "command timeout max\n" */
	struct buf events; /* every recorded event on a line */
	char progress[200];
	const char *output; /* of every command; NULL: a new one each time */
	enum shell_end shell;
};

static enum shell_end fake_shell(void *self, const char *command, int64_t timeout_s,
	size_t max_output, struct buf *out, struct err *err)
{
	struct fixture *f = self;

	buf_printf(&f->ran, "%s %lld %zu\n", command, (long long)timeout_s, max_output);
	if (f->output)
		buf_str(out, f->output);
	else
		buf_printf(out, "output %d of %s", f->result.calls, command);
	if (f->shell == SHELL_HOST)
		err_set(err, ERR_SYSTEM, "no room");
	return f->shell;
}

static void keep_event(void *self, struct json *event)
{
	struct fixture *f = self;
	char *line = json_line(event);

	buf_printf(&f->events, "%s\n", line);
	free(line);
	json_free(event);
}

static void keep_progress(void *self, int turn, const char *what)
{
	struct fixture *f = self;

	(void)snprintf(f->progress, sizeof(f->progress), "turn %d: %s", turn, what);
}

static void fixture_init(struct fixture *f)
{
	*f = (struct fixture){ 0 };
	CHECK(loop_init(&f->loop, false, &f->err));
	f->spec = (struct talk_spec){
		.system = "Repair it.",
		.user = "It is broken.",
		.turns = 12,
		.time_ms = 15000,
		.shell = fake_shell,
		.record = keep_event,
		.progress = keep_progress,
		.self = f,
	};
}

static void fixture_release(struct fixture *f)
{
	buf_release(&f->ran);
	buf_release(&f->events);
	loop_release(&f->loop);
	if (f->server.seen)
		fake_stop(&f->server);
}

static void run_spec(struct fixture *f, const struct fake_spec *spec)
{
	fake_start(&f->server, spec);
	f->spec.url = f->server.url;
	CHECK(talk_run(&f->loop, &f->spec, &f->result, &f->err));
}

#define run(f, ...)                                                                                \
	do {                                                                                       \
		static const struct fake_step steps[] = { __VA_ARGS__ };                           \
		run_spec(f, &(struct fake_spec){ .steps = steps, .count = COUNT(steps) });         \
	} while (0)

/* The request of that number; owned. */
static struct json *request(const struct fixture *f, size_t i)
{
	struct err err;
	struct json *j;

	CHECK(i < f->server.seen->requests);
	j = json_parse(
		f->server.seen->request[i].body, strlen(f->server.seen->request[i].body), &err);
	CHECK(j != NULL);
	return j;
}

/* A field of a message in the last request's history; message -1 is the last one. Owned. */
static char *message(const struct fixture *f, int i, const char *key)
{
	CLEAN(json) struct json *r = request(f, f->server.seen->requests - 1);
	const struct json *list = json_get(r, "messages");
	const struct json *m = json_at(list, i < 0 ? json_len(list) - (size_t)-i : (size_t)i);
	const struct json *field = json_get(m, key);

	return json_text(field) ? xstrdup(json_text(field)) : json_line(field);
}

static void check_message(const struct fixture *f, int i, const char *role, const char *content)
{
	CLEAN(str) char *got_role = message(f, i, "role");
	CLEAN(str) char *got = message(f, i, "content");

	CHECK_STR(got_role, role);
	if (!strstr(got, content))
		CHECK_STR(got, content);
}

TEST(plays_a_conversation)
{
	struct fixture f;
	CLEAN(json) struct json *first = NULL;

	fixture_init(&f);
	run(&f, { .body = CALLS(RUN("uptime")) }, { .body = SAY("Done.") },
		{ .body = SAY("Yes.") });
	CHECK_INT(f.result.end, TALK_ANSWERED);
	CHECK_INT(f.result.turns, 3);
	CHECK_INT(f.result.calls, 1);
	CHECK_INT(f.result.prompt_tokens, 30);
	CHECK_INT(f.result.completion_tokens, 15);
	CHECK_STR(f.result.model, "toy-1");
	CHECK_STR(buf_text(&f.ran), "uptime 10 16384\n");
	CHECK_STR(f.progress, "turn 1: uptime");
	check_message(&f, 0, "system", "Repair it.");
	check_message(&f, 1, "user", "It is broken.");
	check_message(&f, 2, "assistant", "");
	check_message(&f, 3, "tool", "output 1 of uptime");
	check_message(&f, 4, "assistant", "Done.");
	check_message(&f, 5, "user", "If you are done, say so");
	first = request(&f, 0);
	CHECK(!json_get_bool(first, "stream", true));
	CHECK_STR(json_get_str(first, "tool_choice"), "auto");
	CHECK_STR(json_get_str(first, "model"), "toy");
	CHECK_INT(json_len(json_get(first, "tools")), 1);
	fixture_release(&f);
}

TEST(a_call_in_between_earns_another_nudge)
{
	struct fixture f;

	fixture_init(&f);
	run(&f, { .body = SAY("I look.") }, { .body = CALLS(RUN("ls")) }, { .body = SAY("Done.") },
		{ .body = SAY("Done.") });
	CHECK_INT(f.result.end, TALK_ANSWERED);
	CHECK_INT(f.result.turns, 4);
	fixture_release(&f);
}

TEST(broken_arguments_never_enter_the_history)
{
	struct fixture f;
	CLEAN(str) char *calls = NULL;

	fixture_init(&f);
	run(&f, { .body = CALLS(CALL("{\\\"command\\\": uptime}")) });
	CHECK_STR(buf_text(&f.ran), "");
	calls = message(&f, 2, "tool_calls");
	CHECK(strstr(calls, "\"arguments\":\"{}\"") != NULL);
	check_message(
		&f, 3, "tool", "must be a JSON object without NUL, but were: {\"command\": u");
	fixture_release(&f);
}

TEST(arguments_that_are_no_object_are_refused)
{
	struct fixture f;

	fixture_init(&f);
	run(&f, { .body = CALLS(CALL("\\\"uptime\\\"") "," CALL(
			  "{\\\"command\\\":\\\"rm x\\\\u0000y\\\"}") "," CALL("{} {}")) });
	CHECK_STR(buf_text(&f.ran), "");
	for (int i = 3; i <= 5; i++)
		check_message(&f, i, "tool", "must be a JSON object");
	fixture_release(&f);
}

TEST(cut_replies_never_run)
{
	struct fixture f;

	fixture_init(&f);
	run(&f,
		{ .body = REPLY(
			  "\"content\":\"\",\"tool_calls\":[" RUN("rm -rf /tmp/x") "]", "length") },
		{ .body = REPLY(
			  "\"content\":\"\",\"tool_calls\":[" CALL("{\\\"comm") "]", "length") });
	CHECK_INT(f.result.calls, 0);
	CHECK_STR(buf_text(&f.ran), "");
	check_message(&f, 3, "tool", "Not run: your reply was cut off");
	check_message(&f, 5, "tool", "Not run: your reply was cut off");
	fixture_release(&f);
}

TEST(ids_are_nine_letters_and_digits)
{
	struct fixture f;
	CLEAN(json) struct json *last = NULL;
	const struct json *list, *calls;
	char seen[4][16];
	size_t n = 0;

	fixture_init(&f);
	run(&f, { .body = CALLS(RUN("a") "," RUN("b")) }, { .body = CALLS(RUN("c")) },
		{ .body = SAY("Done.") });
	last = request(&f, f.server.seen->requests - 1);
	list = json_get(last, "messages");
	for (size_t i = 0; i < json_len(list); i++) {
		calls = json_get(json_at(list, i), "tool_calls");
		for (size_t c = 0; c < json_len(calls); c++) {
			const char *id = json_get_str(json_at(calls, c), "id");

			CHECK_INT(strlen(id), 9);
			for (const char *p = id; *p; p++)
				CHECK(isalnum(*p));
			CHECK_STR(json_get_str(json_at(list, i + 1 + c), "tool_call_id"), id);
			for (size_t k = 0; k < n; k++)
				CHECK(strcmp(seen[k], id) != 0);
			(void)snprintf(seen[n++], sizeof(seen[0]), "%s", id);
		}
	}
	CHECK_INT(n, 3);
	fixture_release(&f);
}

TEST(silent_commands_have_a_result)
{
	struct fixture f;

	fixture_init(&f);
	f.output = "";
	run(&f, { .body = CALLS(RUN("true")) });
	check_message(&f, 3, "tool", "(no output)");
	fixture_release(&f);
}

TEST(eight_calls_run_and_all_are_answered)
{
	struct fixture f;

	fixture_init(&f);
	run(&f, { .body = CALLS(
			  RUN("1") "," RUN("2") "," RUN("3") "," RUN("4") "," RUN("5") "," RUN(
				  "6") "," RUN("7") "," RUN("8") "," RUN("9") "," RUN("10")) });
	CHECK_INT(f.result.calls, 8);
	check_message(&f, 3, "tool", "output 1 of 1");
	check_message(&f, 10, "tool", "output 8 of 8");
	check_message(&f, 11, "tool", "Not run: at most 8 calls");
	check_message(&f, 12, "tool", "Not run: at most 8 calls");
	check_message(&f, 13, "assistant", "");
	fixture_release(&f);
}

TEST(templates_without_parallel_calls_get_pairs)
{
	static const struct fake_step steps[] = { { .body = CALLS(RUN("a") "," RUN("b")) } };
	struct fixture f;
	CLEAN(str) char *calls = NULL;

	fixture_init(&f);
	run_spec(&f, &(struct fake_spec){ .steps = steps,
			     .count = 1,
			     .props = "{\"chat_template_caps\":"
				      "{\"supports_parallel_tool_calls\":false}}" });
	CHECK_STR(buf_text(&f.ran), "a 10 16384\nb 10 16384\n");
	check_message(&f, 2, "assistant", "");
	check_message(&f, 3, "tool", "output 1 of a");
	check_message(&f, 4, "assistant", "");
	check_message(&f, 5, "tool", "output 2 of b");
	calls = message(&f, 4, "tool_calls");
	CHECK(strstr(calls, "\\\"b\\\"") && !strstr(calls, "\\\"a\\\""));
	fixture_release(&f);
}

TEST(reasoning_goes_back_and_is_no_answer)
{
	struct fixture f;
	CLEAN(str) char *reasoning = NULL;

	fixture_init(&f);
	run(&f,
		{ .body = REPLY("\"content\":\"\",\"reasoning_content\":\"Hm. <tool_call>\","
				"\"tool_calls\":[" RUN("a") "]",
			  "tool_calls") },
		{ .body = REPLY("\"content\":\"\",\"reasoning_content\":\"I am done.\"", "stop") },
		{ .body = REPLY("\"reasoning_content\":\"I am done.\"", "stop") });
	CHECK_INT(f.result.end, TALK_EMPTY);
	reasoning = message(&f, 2, "reasoning_content");
	CHECK_STR(reasoning, "Hm. <tool_call>");
	check_message(&f, -1, "user", "Your reply was empty");
	fixture_release(&f);
}

TEST(repeats_are_noted_and_then_end)
{
	struct fixture f;

	fixture_init(&f);
	f.output = "active";
	run(&f, { .body = CALLS(RUN("a")) }, { .body = CALLS(RUN("a")) },
		{ .body = CALLS(RUN("a")) }, { .body = CALLS(RUN("a")) },
		{ .body = CALLS(RUN("a")) }, { .body = CALLS(RUN("a")) });
	CHECK_INT(f.result.end, TALK_REPEATED);
	CHECK_INT(f.result.turns, 5);
	CHECK_STR(f.result.reason, "the same call gave the same result 5 times in a row");
	check_message(&f, 3, "tool", "active");
	check_message(
		&f, 7, "tool", "[note: this is the same call with the same result for the th");
	fixture_release(&f);
}

TEST(other_results_are_no_repeats)
{
	struct fixture f;

	fixture_init(&f);
	f.spec.turns = 6;
	run(&f, { .body = CALLS(RUN("a")) }, { .body = CALLS(RUN("a")) },
		{ .body = CALLS(RUN("a")) }, { .body = CALLS(RUN("a")) },
		{ .body = CALLS(RUN("a")) }, { .body = CALLS(RUN("a")) });
	CHECK_INT(f.result.end, TALK_TURNS);
	CHECK_STR(f.result.reason, "the limit of 6 turns was reached");
	fixture_release(&f);
}

TEST(empty_turns_are_nudged_once)
{
	struct fixture f;

	fixture_init(&f);
	run(&f, { .body = SAY("") }, { .body = "{\"choices\":[]}" });
	CHECK_INT(f.result.end, TALK_EMPTY);
	CHECK_INT(f.result.turns, 2);
	fixture_release(&f);
}

TEST(odd_shapes_are_tolerated)
{
	struct fixture f;

	fixture_init(&f);
	f.spec.time_ms = 600000;
	run(&f,
		{ .body = "{\"extra\":[1],\"choices\":[{\"message\":{\"tool_calls\":[{\"function\":"
			  "{\"name\":\"exec_shell_command\",\"arguments\":{\"command\":\"a\","
			  "\"timeout\":\"20\",\"max_output_size\":100.0}}}]}}]}" },
		{ .body = CALLS(
			  CALL("{\\\"command\\\":\\\"b\\\",\\\"timeout\\\":null,"
			       "\\\"max_output_size\\\":[]}") "," CALL("{\\\"command\\\":\\\"c\\\","
								       "\\\"timeout\\\":999,"
								       "\\\"cwd\\\":1}")) });
	CHECK_STR(buf_text(&f.ran), "a 20 100\nb 10 16384\nc 60 16384\n");
	fixture_release(&f);
}

TEST(calls_that_cannot_be_run_are_explained)
{
	struct fixture f;

	fixture_init(&f);
	run(&f, { .body = CALLS(CALL("{\\\"command\\\":[\\\"ls\\\"]}") "," CALL(
			  "{}") ",{\"function\":{\"name\":\"python\",\"arguments\":\"{}\"}},{}") });
	CHECK_STR(buf_text(&f.ran), "");
	check_message(&f, 3, "tool", "\"command\" must be a string");
	check_message(&f, 4, "tool", "\"command\" must be a string");
	check_message(&f, 5, "tool", "there is no tool \"python\"");
	check_message(&f, 6, "tool", "there is no tool \"unknown\"");
	fixture_release(&f);
}

TEST(the_machine_may_end_it)
{
	static const enum talk_end ends[] = {
		[SHELL_OFF] = TALK_OFF, [SHELL_CLOSED] = TALK_CLOSED
	};

	for (enum shell_end e = SHELL_OFF; e <= SHELL_CLOSED; e++) {
		struct fixture f;

		fixture_init(&f);
		f.shell = e;
		run(&f, { .body = CALLS(RUN("poweroff") "," RUN("ls")) });
		CHECK_INT(f.result.end, ends[e]);
		CHECK_INT(f.result.calls, 1);
		CHECK_INT(f.server.seen->requests, 1);
		fixture_release(&f);
	}
}

TEST(a_failing_host_is_no_result)
{
	static const struct fake_step step = { .body = CALLS(RUN("ls")) };
	struct fixture f;

	fixture_init(&f);
	f.shell = SHELL_HOST;
	fake_start(&f.server, &(struct fake_spec){ .steps = &step, .count = 1 });
	f.spec.url = f.server.url;
	CHECK(!talk_run(&f.loop, &f.spec, &f.result, &f.err));
	CHECK_STR(f.err.text, "no room");
	fixture_release(&f);
}

TEST(everything_is_recorded_but_the_key)
{
	struct fixture f;

	fixture_init(&f);
	f.spec.key = "very-secret";
	run(&f, { .body = CALLS(RUN("ls")) }, { .status = 500, .body = "<html>oops" },
		{ .body = SAY("a") }, { .body = SAY("b") });
	CHECK(strstr(f.server.seen->request[0].head, "Authorization: Bearer very-secret\r\n"));
	CHECK(!strstr(buf_text(&f.events), "very-secret"));
	CHECK(strstr(buf_text(&f.events), "{\"type\":\"request\",\"turn\":1,\"body\":{"));
	CHECK(strstr(
		buf_text(&f.events), "{\"type\":\"reply\",\"turn\":1,\"status\":200,\"body\":{"));
	CHECK(strstr(buf_text(&f.events), "\"status\":500,\"body\":\"<html>oops\""));
	CHECK(strstr(buf_text(&f.events),
		"{\"type\":\"command\",\"turn\":1,\"name\":\"exec_shell_command\","
		"\"arguments\":{\"command\":\"ls\"},\"run\":true,\"result\":\"output 1 of ls\"}"));
	fixture_release(&f);
}
