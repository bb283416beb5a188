/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The turn loop against a real llama-server; tests/e2e/talk.sh starts it.
 *
 * $LLAMA_URL talks without a limit, $LLAMA_SHORT_URL ends replies after 40 tokens and has a small
 * context, $LLAMA_KEY_URL wants the key "open-sesame", $LLAMA_DEAD_URL is where none listens.
 */
#include "model/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "test.h"

struct fixture {
	struct loop loop;
	struct talk_spec spec;
	struct talk_result result;
	struct err err;
	struct buf ran, events;
};

static enum shell_end fake_shell(void *self, const char *command, int64_t timeout_s,
	size_t max_output, struct buf *out, struct err *err)
{
	struct fixture *f = self;

	(void)max_output;
	(void)err;
	buf_printf(&f->ran, "%s [%lld]\n", command, (long long)timeout_s);
	buf_str(out, "fine");
	return SHELL_RAN;
}

static void keep_event(void *self, struct json *event)
{
	struct fixture *f = self;
	char *line = json_line(event);

	buf_printf(&f->events, "%s\n", line);
	free(line);
	json_free(event);
}

static void no_progress(void *self, int turn, const char *what)
{
	(void)self;
	(void)turn;
	(void)what;
}

static const char *url_of(const char *name)
{
	const char *url = getenv(name);

	CHECK(url != NULL);
	return url;
}

static void talk(
	struct fixture *f, const char *url, const char *key, const char *user, int64_t time_ms)
{
	*f = (struct fixture){ 0 };
	CHECK(loop_init(&f->loop, false, &f->err));
	f->spec = (struct talk_spec){
		.url = url,
		.key = key,
		.system = "You repair servers.",
		.user = user,
		.turns = 12,
		.time_ms = time_ms,
		.shell = fake_shell,
		.record = keep_event,
		.progress = no_progress,
		.self = f,
	};
	CHECK(talk_run(&f->loop, &f->spec, &f->result, &f->err));
	printf("# %s: %s; %d turns, %d calls, %lld + %lld tokens\n", talk_end_name(f->result.end),
		f->result.reason, f->result.turns, f->result.calls,
		(long long)f->result.prompt_tokens, (long long)f->result.completion_tokens);
}

static void release(struct fixture *f)
{
	buf_release(&f->ran);
	buf_release(&f->events);
	loop_release(&f->loop);
}

static void check_end(const struct fixture *f, enum talk_end end, const char *reason)
{
	CHECK_STR(talk_end_name(f->result.end), talk_end_name(end));
	if (!strstr(f->result.reason, reason))
		CHECK_STR(f->result.reason, reason);
}

static bool recorded(const struct fixture *f, const char *part)
{
	return strstr(buf_text(&f->events), part) != NULL;
}

TEST_WITHIN(parallel_calls_run_in_order, 120)
{
	struct fixture f;

	talk(&f, url_of("LLAMA_URL"), NULL, "Please do two at once.", 100000);
	check_end(&f, TALK_ANSWERED, "");
	CHECK_INT(f.result.turns, 3);
	CHECK_STR(buf_text(&f.ran),
		"systemctl is-active nginx [10]\nprintf '%s\\n' \"it's ✓\"\nss -ltn [20]\n");
	CHECK(f.result.prompt_tokens > 0 && f.result.completion_tokens > 0);
	CHECK(f.result.model[0] != '\0');
	CHECK(recorded(&f, "\"type\":\"server\""));
	release(&f);
}

TEST_WITHIN(malformed_calls_are_sampled_again, 120)
{
	struct fixture f;

	talk(&f, url_of("LLAMA_URL"), NULL, "something malformed", 100000);
	check_end(&f, TALK_ANSWERED, "");
	CHECK_STR(buf_text(&f.ran), "uptime [10]\n");
	CHECK(recorded(&f, "\"status\":500"));
	CHECK(recorded(&f, "\"seed\":1"));
	CHECK(recorded(&f, "\"seed\":2"));
	CHECK(recorded(&f, "Your call could not be read."));
	CHECK_INT(f.result.turns, 4);
	release(&f);
}

TEST_WITHIN(cut_calls_are_never_run, 120)
{
	struct fixture f;

	talk(&f, url_of("LLAMA_SHORT_URL"), NULL, "It was cut off.", 100000);
	check_end(&f, TALK_ANSWERED, "");
	CHECK_STR(buf_text(&f.ran), "uptime [10]\n");
	CHECK(recorded(&f, "\"finish_reason\":\"length\""));
	CHECK(recorded(&f, "Not run: your reply was cut off"));
	release(&f);
}

TEST_WITHIN(repeats_end, 120)
{
	struct fixture f;

	talk(&f, url_of("LLAMA_URL"), NULL, "again and again", 100000);
	check_end(&f, TALK_REPEATED, "5 times");
	CHECK_INT(f.result.turns, 5);
	release(&f);
}

TEST_WITHIN(silence_ends, 120)
{
	struct fixture f;

	talk(&f, url_of("LLAMA_URL"), NULL, "say nothing", 100000);
	check_end(&f, TALK_EMPTY, "empty");
	release(&f);
}

TEST_WITHIN(a_full_context_ends, 120)
{
	static char long_text[8000];
	struct fixture f;

	memset(long_text, 'x', sizeof(long_text) - 1);
	talk(&f, url_of("LLAMA_SHORT_URL"), NULL, long_text, 100000);
	check_end(&f, TALK_CONTEXT, "the context of the model server is full");
	release(&f);
}

TEST_WITHIN(hostile_text_is_accepted, 120)
{
	static const char bytes[] = "a\0b\xff <|over|> </tool_call>\x1b[0m";
	struct buf out = { 0 };
	struct fixture f;

	output_for_model(bytes, sizeof(bytes), 16384, &out);
	talk(&f, url_of("LLAMA_URL"), NULL, buf_text(&out), 100000);
	check_end(&f, TALK_ANSWERED, "");
	buf_release(&out);
	release(&f);
}

TEST_WITHIN(the_time_limit_frees_the_server, 120)
{
	struct fixture f;

	talk(&f, url_of("LLAMA_URL"), NULL, "never stop", 1500);
	check_end(&f, TALK_TIME, "the time limit of 1.5 s was reached");
	release(&f);
	/* It has one slot, and what was asked there would have gone on for long. */
	talk(&f, url_of("LLAMA_URL"), NULL, "say nothing", 20000);
	check_end(&f, TALK_EMPTY, "");
	release(&f);
}

static void check_probe(const char *url, const char *key, const char *part)
{
	struct loop loop;
	struct err err;

	CHECK(loop_init(&loop, false, &err));
	if (!part) {
		CHECK(talk_probe(&loop, url, key, clock_in(20000), &err));
	} else {
		CHECK(!talk_probe(&loop, url, key, clock_in(20000), &err));
		if (!strstr(err.text, part))
			CHECK_STR(err.text, part);
		printf("# %s\n", err.text);
	}
	loop_release(&loop);
}

TEST_WITHIN(the_probe_names_the_trouble, 120)
{
	char wrong[200];

	(void)snprintf(wrong, sizeof(wrong), "%s/elsewhere", url_of("LLAMA_URL"));
	check_probe(url_of("LLAMA_URL"), NULL, NULL);
	check_probe(wrong, NULL, "wrong path");
	check_probe(url_of("LLAMA_KEY_URL"), "open-sesame", NULL);
	check_probe(url_of("LLAMA_KEY_URL"), "wrong", "refuses the key");
	check_probe(url_of("LLAMA_KEY_URL"), NULL, "refuses requests without a key");
	check_probe(url_of("LLAMA_DEAD_URL"), NULL, "no model server answers");
}

TEST_WITHIN(trouble_ends_a_talk_unscored, 120)
{
	struct fixture f;

	talk(&f, url_of("LLAMA_KEY_URL"), "wrong", "two at once", 100000);
	check_end(&f, TALK_SERVER, "refuses the key");
	release(&f);
	talk(&f, url_of("LLAMA_KEY_URL"), "open-sesame", "two at once", 100000);
	check_end(&f, TALK_ANSWERED, "");
	CHECK(!recorded(&f, "open-sesame"));
	release(&f);
	talk(&f, url_of("LLAMA_DEAD_URL"), NULL, "two at once", 100000);
	check_end(&f, TALK_SERVER, "no model server answers");
	release(&f);
}
