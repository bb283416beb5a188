/* SPDX-License-Identifier: Apache-2.0 */
/* Requests, the history in them, and replies. */
#include "chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "output.h"
#include "tool.h"

static struct json *add_message(struct chat *chat, const char *role, const char *text)
{
	struct json *m = json_add(chat->messages, json_object());

	json_set_str(m, "role", role);
	json_set_str(m, "content", text);
	return m;
}

void chat_init(struct chat *chat, const char *system, const char *user)
{
	*chat = (struct chat){ .messages = json_array() };
	add_message(chat, "system", system);
	add_message(chat, "user", user);
}

void chat_release(struct chat *chat)
{
	if (chat)
		json_free(chat->messages);
}

struct json *chat_request(const struct chat *chat, const char *model)
{
	struct json *r = json_object();

	if (model)
		json_set_str(r, "model", model);
	json_set(r, "messages", json_copy(chat->messages));
	json_set(r, "tools", tool_list());
	json_set_str(r, "tool_choice", "auto");
	json_set_bool(r, "stream", false);
	return r;
}

/* Arguments inside of a string may hold an escaped NUL, which would cut the command unseen. */
static bool has_nul_escape(const char *text)
{
	for (; *text; text++) {
		if (*text != '\\')
			continue;
		if (!strncmp(text + 1, "u0000", 5))
			return true;
		if (*++text == '\0')
			return false;
	}
	return false;
}

/* Arguments are JSON inside of a string; some servers send the object itself, or none at all. */
static struct json *read_arguments(const struct json *untrusted, struct call *call)
{
	const char *text = json_text(untrusted);
	struct json *arguments;
	struct err err;

	if (!untrusted)
		return json_object();
	if (json_is_object(untrusted))
		return json_copy(untrusted);
	arguments = text && !has_nul_escape(text) ? json_parse(text, strlen(text), &err) : NULL;
	if (json_is_object(arguments))
		return arguments;
	json_free(arguments);
	output_line(text ? text : "", call->broken, sizeof(call->broken));
	return NULL;
}

void reply_read(struct reply *reply, struct json *root)
{
	const struct json *choice = json_at(json_get(root, "choices"), 0);
	const struct json *message = json_get(choice, "message");
	const struct json *calls = json_get(message, "tool_calls");
	const char *finish = json_get_str(choice, "finish_reason");

	*reply = (struct reply){
		.root = root,
		.untrusted_text = json_get_str(message, "content"),
		.untrusted_reasoning = json_get_str(message, "reasoning_content"),
		.cut = finish && !strcmp(finish, "length"),
		.calls = json_is_array(calls) ? json_len(calls) : 0,
	};
	if (!reply->untrusted_text)
		reply->untrusted_text = "";
	if (reply->calls > CHAT_CALLS)
		reply->calls = CHAT_CALLS;
	for (size_t i = 0; i < reply->calls; i++) {
		const struct json *function = json_get(json_at(calls, i), "function");
		struct call *call = &reply->call[i];

		call->untrusted_name = json_get_str(function, "name");
		if (!call->untrusted_name || !*call->untrusted_name)
			call->untrusted_name = "unknown";
		call->untrusted_arguments = read_arguments(json_get(function, "arguments"), call);
	}
}

void reply_release(struct reply *reply)
{
	for (size_t i = 0; i < reply->calls; i++)
		json_free(reply->call[i].untrusted_arguments);
	json_free(reply->root);
}

static struct json *add_assistant(struct chat *chat, const struct reply *reply, bool first)
{
	struct json *m = add_message(chat, "assistant", first ? reply->untrusted_text : "");

	if (first && reply->untrusted_reasoning)
		json_set_str(m, "reasoning_content", reply->untrusted_reasoning);
	return m;
}

/* An id that every template takes: Mistral's want nine letters and digits. */
static void next_id(struct chat *chat, char ret_id[10])
{
	(void)snprintf(ret_id, 10, "c%08u", ++chat->last_id % 100000000);
}

static void add_call(struct json *list, const struct call *call, const char *id)
{
	struct json *c = json_add(list, json_object()), *function;
	char *arguments =
		call->untrusted_arguments ? json_line(call->untrusted_arguments) : xstrdup("{}");

	json_set_str(c, "id", id);
	json_set_str(c, "type", "function");
	function = json_set(c, "function", json_object());
	json_set_str(function, "name", call->untrusted_name);
	json_set_str(function, "arguments", arguments);
	free(arguments);
}

static void add_result(struct chat *chat, const char *id, const char *result)
{
	json_set_str(add_message(chat, "tool", result), "tool_call_id", id);
}

void chat_add(struct chat *chat, const struct reply *reply, char *const *results)
{
	char ids[CHAT_CALLS][10];
	struct json *m, *list = NULL;

	if (!reply->calls)
		add_assistant(chat, reply, true);
	for (size_t i = 0; i < reply->calls; i++) {
		if (!list || chat->one_call) {
			m = add_assistant(chat, reply, i == 0);
			list = json_set(m, "tool_calls", json_array());
		}
		next_id(chat, ids[i]);
		add_call(list, &reply->call[i], ids[i]);
		if (chat->one_call)
			add_result(chat, ids[i], results[i]);
	}
	for (size_t i = 0; i < reply->calls && !chat->one_call; i++)
		add_result(chat, ids[i], results[i]);
}

void chat_add_user(struct chat *chat, const char *text)
{
	add_message(chat, "user", text);
}
