/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The turns of a conversation.
 *
 * How it works. Each turn asks for a reply, runs its calls and puts both into the history. Two
 * guards end what would go on for ever: replies without a call that runs (one nudge, then the end),
 * and a call that is repeated with the same result (a note at the third time, the end at the
 * fifth).
 */
#include "talk.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "chat.h"
#include "output.h"
#include "server.h"
#include "tool.h"

#define CALLS_RUN   8 /* of one reply */
#define REPEAT_NOTE 3 /* times that the same call gave the same result, in a row */
#define REPEAT_END  5

struct talk {
	struct loop *loop;
	const struct talk_spec *spec;
	struct talk_result *result;
	struct server server;
	struct chat chat;
	int64_t deadline;
	bool over;	/* result->end and reason are set */
	bool stopped;	/* interrupted, or the host failed: err is set */
	bool nudged;	/* the last reply had no calls, and was told so */
	char *repeated; /* the last call and its result */
	int repeats;
};

static const char *const end_names[] = {
	[TALK_ANSWERED] = "answered",
	[TALK_TURNS] = "turns",
	[TALK_TIME] = "time",
	[TALK_CONTEXT] = "context",
	[TALK_EMPTY] = "empty",
	[TALK_REPEATED] = "repeated",
	[TALK_OFF] = "off",
	[TALK_CLOSED] = "closed",
	[TALK_SERVER] = "server",
};

const char *talk_end_name(enum talk_end end)
{
	return end_names[end];
}

__attribute__((format(printf, 3, 4))) static void end_talk(
	struct talk *t, enum talk_end end, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(t->result->reason, sizeof(t->result->reason), fmt, ap);
	va_end(ap);
	t->result->end = end;
	t->over = true;
}

static void end_by_time(struct talk *t)
{
	end_talk(t, TALK_TIME, "the time limit of %.10g s was reached",
		(double)t->spec->time_ms / 1000);
}

/* Ends the conversation for every answer but a reply and a malformed one. */
static void take_answer(struct talk *t, enum answer answer, const struct err *err)
{
	switch (answer) {
	case ANSWER_REPLY:
	case ANSWER_MALFORMED:
		return;
	case ANSWER_CONTEXT:
		end_talk(t, TALK_CONTEXT, "the context of the model server is full: %s", err->text);
		return;
	case ANSWER_TIME:
		end_by_time(t);
		return;
	case ANSWER_FAILED:
		end_talk(t, TALK_SERVER, "%s", err->text);
		return;
	case ANSWER_STOPPED:
		t->stopped = true;
		return;
	}
}

/* Sums up what the server says about itself and its work. */
static void count_reply(struct talk *t, const struct json *root)
{
	const struct json *usage = json_get(root, "usage");
	const char *model = json_get_str(root, "model");
	int64_t prompt = json_get_int(usage, "prompt_tokens", 0);
	int64_t completion = json_get_int(usage, "completion_tokens", 0);

	if (prompt > 0)
		t->result->prompt_tokens += prompt;
	if (completion > 0)
		t->result->completion_tokens += completion;
	if (model)
		output_line(model, t->result->model, sizeof(t->result->model));
}

static void record_call(struct talk *t, const struct call *call, const char *result, bool run)
{
	struct json *event = json_object();

	json_set_str(event, "type", "command");
	json_set_int(event, "turn", t->result->turns);
	json_set_str(event, "name", call->untrusted_name);
	json_set(event, "arguments", json_copy(call->untrusted_arguments));
	json_set_bool(event, "run", run);
	json_set_str(event, "result", result);
	t->spec->record(t->spec->self, event);
}

/* Why a call is not run; adds nothing when it is. */
static void refuse_call(
	const struct reply *reply, size_t i, struct tool_command *ret_command, struct buf *out)
{
	const struct call *call = &reply->call[i];

	if (reply->cut)
		buf_str(out, "Not run: your reply was cut off at the length limit. "
			     "Make the call again in a shorter reply.");
	else if (i >= CALLS_RUN)
		buf_printf(out,
			"Not run: at most %d calls of one reply are run. Make this call again "
			"if you still need it.",
			CALLS_RUN);
	else if (!call->untrusted_arguments)
		buf_printf(out,
			"Not run: the arguments must be a JSON object without NUL, but were: %s",
			call->broken);
	else
		(void)tool_check(call->untrusted_name, call->untrusted_arguments, ret_command, out);
}

static void run_command(
	struct talk *t, const struct tool_command *command, struct buf *out, struct err *err)
{
	int64_t left_s = (t->deadline - clock_ms()) / 1000 + 1;
	char line[160];

	output_line(command->command, line, sizeof(line));
	t->spec->progress(t->spec->self, t->result->turns, line);
	t->result->calls++;
	switch (t->spec->shell(t->spec->self, command->command,
		command->timeout_s < left_s ? command->timeout_s : left_s, command->max_output, out,
		err)) {
	case SHELL_RAN:
		break;
	case SHELL_OFF:
		end_talk(t, TALK_OFF, "the machine was powered off");
		break;
	case SHELL_CLOSED:
		end_talk(t, TALK_CLOSED, "channel closed by the guest");
		break;
	case SHELL_HOST:
		t->stopped = true;
		break;
	}
	if (!out->len)
		buf_str(out, "(no output)");
}

/* Notes a call that is made again and again, and ends the conversation when that goes on. */
static void watch_repeats(struct talk *t, const struct call *call, struct buf *result)
{
	char *arguments = json_line(call->untrusted_arguments);
	char *now = xasprintf("%s %s\n%s", call->untrusted_name, arguments, buf_text(result));
	bool same = t->repeated && !strcmp(now, t->repeated);

	free(arguments);
	free(t->repeated);
	t->repeated = now;
	t->repeats = same ? t->repeats + 1 : 1;
	if (t->repeats >= REPEAT_END && !t->over)
		end_talk(t, TALK_REPEATED, "the same call gave the same result %d times in a row",
			t->repeats);
	else if (t->repeats >= REPEAT_NOTE)
		buf_printf(result,
			"\n[note: this is the same call with the same result for the %s time; "
			"do something else]",
			t->repeats == REPEAT_NOTE ? "third" : "fourth");
}

/* Returns owned: the result of a call, which may also end the conversation. */
static char *answer_call(struct talk *t, const struct reply *reply, size_t i, struct err *err)
{
	struct tool_command command = { 0 };
	struct buf result = { 0 };

	if (clock_ms() >= t->deadline) {
		end_by_time(t);
		return NULL;
	}
	refuse_call(reply, i, &command, &result);
	if (command.command)
		run_command(t, &command, &result, err);
	watch_repeats(t, &reply->call[i], &result);
	record_call(t, &reply->call[i], buf_text(&result), command.command);
	return buf_take(&result);
}

static void answer_calls(struct talk *t, const struct reply *reply, struct err *err)
{
	char *results[CHAT_CALLS] = { 0 };
	size_t done = 0;

	while (done < reply->calls && !t->over && !t->stopped) {
		results[done] = answer_call(t, reply, done, err);
		done++;
	}
	if (!t->over && !t->stopped)
		chat_add(&t->chat, reply, results);
	for (size_t i = 0; i < done; i++)
		free(results[i]);
	t->nudged = false;
}

static bool is_blank(const char *text)
{
	return text[strspn(text, " \t\r\n")] == '\0';
}

/* A reply without calls: what to say to it, or how to end after having said so. */
static void nudge(struct talk *t, const struct reply *reply, bool malformed)
{
	const char *say, *why;

	if (malformed) {
		say = "Your call could not be read. Make it again, with arguments that are valid "
		      "JSON.";
		why = "the model's calls could not be read";
	} else if (reply->cut) {
		say = "Your reply was cut off at the length limit. Go on with the tool, in shorter "
		      "replies.";
		why = "the model's replies were cut off at the length limit";
	} else if (is_blank(reply->untrusted_text)) {
		say = "Your reply was empty. If you are done, say so; otherwise go on with the "
		      "tool.";
		why = "the model's replies were empty";
	} else {
		say = "If you are done, say so; otherwise go on with the tool.";
		why = NULL;
	}
	if (t->nudged && why)
		end_talk(t, TALK_EMPTY, "%s, twice in a row", why);
	else if (t->nudged)
		end_talk(t, TALK_ANSWERED, "the model ended with a reply without a call");
	chat_add(&t->chat, reply, NULL);
	chat_add_user(&t->chat, say);
	t->nudged = true;
}

static void take_turn(struct talk *t, struct err *err)
{
	CLEAN(json) struct json *request = chat_request(&t->chat, t->server.model);
	struct json *root = NULL;
	struct reply reply;
	enum answer answer =
		server_ask(&t->server, request, t->result->turns + 1, t->deadline, &root, err);

	take_answer(t, answer, err);
	if (t->over || t->stopped)
		return;
	t->result->turns++;
	count_reply(t, root);
	reply_read(&reply, root);
	if (reply.calls)
		answer_calls(t, &reply, err);
	else
		nudge(t, &reply, answer == ANSWER_MALFORMED);
	reply_release(&reply);
	if (!t->over && t->result->turns >= t->spec->turns)
		end_talk(t, TALK_TURNS, "the limit of %d turns was reached", t->spec->turns);
}

static void start(struct talk *t, struct err *err)
{
	const struct talk_spec *spec = t->spec;

	if (!server_init(&t->server, t->loop, spec->url, spec->key, err)) {
		take_answer(t, ANSWER_FAILED, err);
		return;
	}
	t->server.record = spec->record;
	t->server.record_self = spec->self;
	take_answer(t, server_find(&t->server, t->deadline, err), err);
	if (!t->over && !t->stopped)
		take_answer(t, server_learn(&t->server, t->deadline, err), err);
	t->chat.one_call = t->server.one_call;
}

bool talk_run(struct loop *loop, const struct talk_spec *spec, struct talk_result *ret_result,
	struct err *err)
{
	struct talk t = {
		.loop = loop,
		.spec = spec,
		.result = ret_result,
		.deadline = clock_in(spec->time_ms),
	};

	*ret_result = (struct talk_result){ 0 };
	chat_init(&t.chat, spec->system, spec->user);
	start(&t, err);
	while (!t.over && !t.stopped)
		take_turn(&t, err);
	chat_release(&t.chat);
	server_release(&t.server);
	free(t.repeated);
	return !t.stopped;
}

bool talk_probe(
	struct loop *loop, const char *url, const char *key, int64_t deadline, struct err *err)
{
	struct server server;
	bool found;

	if (!server_init(&server, loop, url, key, err))
		return false;
	found = server_find(&server, deadline, err) == ANSWER_REPLY;
	server_release(&server);
	return found;
}
