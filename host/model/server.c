/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to a model server, and what its answers mean. */
#include "server.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/xalloc.h"
#include "http.h"
#include "output.h"
#include "utf8.h"

#define PAUSE_MS    250	  /* between two looks at a server that is loading or gone */
#define RETURN_MS   30000 /* a server that died may take this long to come back */
#define DEATHS_MAX  3	  /* of the server, over one request */
#define SAMPLES_MAX 3	  /* of one reply, when the server fails on it */

/* One exchange with the server. */
struct exchange {
	enum http_end end;
	int status;
	struct json *body; /* NULL: there was no answer */
};

static void exchange_clean(struct exchange *x)
{
	json_free(x->body);
}

bool server_init(
	struct server *s, struct loop *loop, const char *url, const char *key, struct err *err)
{
	size_t len = strlen(url);

	if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
		return err_set(err, ERR_INPUT,
			"%s is no address of a model server; write http://HOST:PORT", url);
	for (const char *c = key; c && *c; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f)
			return err_set(err, ERR_INPUT,
				"the key of the model server has a space or a line break in it; "
				"give it without");
	while (len && url[len - 1] == '/')
		len--;
	if (len > 3 && !strncmp(url + len - 3, "/v1", 3))
		len -= 3;
	*s = (struct server){ .loop = loop, .base = xstrndup(url, len), .key = key };
	return true;
}

void server_release(struct server *s)
{
	if (!s)
		return;
	free(s->base);
	free(s->model);
}

/* A NUL would cut strings short unseen: every \u0000 becomes \ufffd. */
static void replace_nul_escapes(struct buf *text)
{
	for (size_t i = 0; i + 5 < text->len; i++) {
		if (text->data[i] != '\\')
			continue;
		if (!memcmp(text->data + i + 1, "u0000", 5))
			memcpy(text->data + i + 2, "fffd", 4);
		i++;
	}
}

/* What is not JSON becomes a string, for the record. */
static struct json *parse_body(const struct buf *untrusted_body)
{
	CLEAN(buf) struct buf text = { 0 };
	struct json *body;
	struct err err;

	utf8_repair(buf_text(untrusted_body), untrusted_body->len, &text);
	replace_nul_escapes(&text);
	body = json_parse(buf_text(&text), text.len, &err);
	return body ? body : json_string(buf_text(&text));
}

/* Some servers report an error of theirs as a success. */
static int real_status(int status, const struct json *body)
{
	const struct json *error = json_get(body, "error");
	int64_t code;

	if (status != 200 || !error || json_get(body, "choices"))
		return status;
	code = json_get_int(error, "code", 500);
	return code >= 400 && code < 600 ? (int)code : 500;
}

static struct exchange run(
	struct server *s, const char *path, const char *body, int64_t deadline, struct err *err)
{
	char *url = xasprintf("%s%s", s->base, path);
	struct http_request request = { url, s->key, body, deadline };
	struct http_reply reply = { 0 };
	struct exchange x = { .end = http_run(s->loop, &request, &reply, err) };

	if (x.end == HTTP_ANSWERED) {
		x.body = parse_body(&reply.body);
		x.status = real_status(reply.status, x.body);
	}
	buf_release(&reply.body);
	free(url);
	return x;
}

/* The server's own words about an error, printable, "" when it has none. */
static void error_text(const struct json *body, char *ret_text, size_t size)
{
	const struct json *error = json_get(body, "error");
	const char *text = json_text(error);

	if (!text)
		text = json_get_str(error, "message");
	if (!text)
		text = json_get_str(body, "message");
	output_line(text ? text : "", ret_text, size);
}

static bool says(const struct json *body, const char *const *wordings)
{
	const struct json *error = json_get(body, "error");
	char text[400];

	error_text(body, text, sizeof(text));
	for (; *wordings; wordings++) {
		const char *type = json_get_str(error, "type");
		const char *code = json_get_str(error, "code");

		if (strcasestr(text, *wordings) || (type && strcasestr(type, *wordings)) ||
			(code && strcasestr(code, *wordings)))
			return true;
	}
	return false;
}

static bool is_context(const struct exchange *x)
{
	static const char *const wordings[] = {
		"exceed_context_size",
		"context_length_exceeded",
		"context size has been exceeded",
		"exceeds the available context size",
		"maximum context length",
		"exceeds the context window",
		"greater than the context length",
		"context length exceeded",
		"prompt is too long",
		"too many tokens",
		NULL,
	};

	return x->status >= 400 && says(x->body, wordings);
}

/* The server could not make sense of what its model wrote. */
static bool is_malformed(const struct exchange *x)
{
	static const char *const wordings[] = {
		"does not match the expected",
		"failed to parse input",
		"empty grammar stack",
		"invalid diff",
		NULL,
	};

	return x->status == 500 && says(x->body, wordings);
}

static bool is_busy(const struct exchange *x)
{
	return x->status == 503 || x->status == 429;
}

/* Sets err for an exchange that did not end well. */
static enum answer explain(const struct server *s, const struct exchange *x, struct err *err)
{
	char text[200];

	if (x->end == HTTP_TIME)
		return ANSWER_TIME;
	if (x->end == HTTP_STOPPED)
		return ANSWER_STOPPED;
	if (x->end != HTTP_ANSWERED) {
		err_in(err, "no model server answers at %s; start it there or name another address",
			s->base);
		return ANSWER_FAILED;
	}
	error_text(x->body, text, sizeof(text));
	if (x->status == 401 || x->status == 403)
		err_set(err, ERR_DENIED,
			"the model server at %s refuses %s (HTTP %d); give the key that it was "
			"started with",
			s->base, s->key ? "the key" : "requests without a key", x->status);
	else if (x->status == 404 || x->status == 405)
		err_set(err, ERR_INPUT,
			"wrong path: there is no /v1 of a model server below %s (HTTP %d%s%s); "
			"give "
			"the server's address as http://HOST:PORT",
			s->base, x->status, *text ? ": " : "", text);
	else if (x->status >= 300 && x->status < 400)
		err_set(err, ERR_INPUT,
			"%s redirects to another address (HTTP %d); give that one instead", s->base,
			x->status);
	else if (is_busy(x))
		err_set(err, ERR_TIME,
			"the model server at %s was not ready in time (HTTP %d%s%s); wait until it "
			"has loaded its model",
			s->base, x->status, *text ? ": " : "", text);
	else if (x->status == 200)
		err_set(err, ERR_PEER,
			"what answers at %s is no model server; give the address of one", s->base);
	else
		err_set(err, ERR_PEER,
			"the model server at %s failed with HTTP %d%s%s; see its own log", s->base,
			x->status, *text ? ": " : "", text);
	return ANSWER_FAILED;
}

/* A GET that waits while the server is loading. */
static enum answer get(
	struct server *s, const char *path, int64_t deadline, struct exchange *ret, struct err *err)
{
	for (;;) {
		*ret = run(s, path, NULL, deadline, err);
		if (ret->end != HTTP_ANSWERED || !is_busy(ret) || clock_ms() + PAUSE_MS >= deadline)
			break;
		json_free(json_take(&ret->body));
		if (!loop_pause(s->loop, PAUSE_MS, err))
			return ANSWER_STOPPED;
	}
	return ret->end == HTTP_ANSWERED && ret->status == 200 ? ANSWER_REPLY
							       : explain(s, ret, err);
}

enum answer server_find(struct server *s, int64_t deadline, struct err *err)
{
	CLEAN(exchange) struct exchange x = { 0 };
	enum answer answer = get(s, "/v1/models", deadline, &x, err);
	const char *id;

	if (answer == ANSWER_TIME) {
		err_set(err, ERR_TIME,
			"the model server at %s did not answer in time; see its own log", s->base);
		return ANSWER_FAILED;
	}
	if (answer != ANSWER_REPLY)
		return answer;
	if (!json_is_object(x.body))
		return explain(s, &x, err);
	id = json_get_str(json_at(json_get(x.body, "data"), 0), "id");
	if (id && !s->model)
		s->model = xstrdup(id);
	return ANSWER_REPLY;
}

static void record(struct server *s, const char *type, int turn, struct json *body, int status)
{
	struct json *event;

	if (!s->record) {
		json_free(body);
		return;
	}
	event = json_object();
	json_set_str(event, "type", type);
	json_set_int(event, "turn", turn);
	if (status)
		json_set_int(event, "status", status);
	json_set(event, "body", body);
	s->record(s->record_self, event);
}

enum answer server_learn(struct server *s, int64_t deadline, struct err *err)
{
	CLEAN(exchange) struct exchange x = { 0 };
	enum answer answer = get(s, "/props", deadline, &x, err);
	const struct json *caps = json_get(x.body, "chat_template_caps");

	if (answer == ANSWER_STOPPED || answer == ANSWER_TIME)
		return answer;
	s->one_call = answer == ANSWER_REPLY &&
		      !json_get_bool(caps, "supports_parallel_tool_calls", true);
	if (answer == ANSWER_REPLY)
		record(s, "server", 0, json_copy(x.body), 0);
	return ANSWER_REPLY;
}

/* Waits for a server that died. */
static enum answer wait_return(struct server *s, int64_t deadline, struct err *err)
{
	int64_t until = clock_in(RETURN_MS);

	if (until > deadline)
		until = deadline;
	while (clock_ms() + PAUSE_MS < until) {
		CLEAN(exchange) struct exchange x = { 0 };

		if (!loop_pause(s->loop, PAUSE_MS, err))
			return ANSWER_STOPPED;
		x = run(s, "/health", NULL, until, err);
		if (x.end == HTTP_STOPPED)
			return ANSWER_STOPPED;
		if (x.end == HTTP_ANSWERED && !is_busy(&x))
			return ANSWER_REPLY;
	}
	err_set(err, ERR_PEER,
		"the model server at %s went away and did not come back; see its own log", s->base);
	return ANSWER_FAILED;
}

/* What to do after an exchange: done with the answer, or try again. */
struct tries {
	int deaths, samples;
};

static bool try_again(struct server *s, const struct exchange *x, struct tries *tries,
	int64_t deadline, enum answer *ret_answer, struct err *err)
{
	if (x->end == HTTP_GONE && ++tries->deaths <= DEATHS_MAX) {
		*ret_answer = wait_return(s, deadline, err);
		return *ret_answer == ANSWER_REPLY;
	}
	if (x->end == HTTP_ANSWERED && is_busy(x) && clock_ms() + PAUSE_MS < deadline) {
		*ret_answer = ANSWER_STOPPED;
		return loop_pause(s->loop, PAUSE_MS, err);
	}
	*ret_answer = explain(s, x, err);
	if (x->end != HTTP_ANSWERED)
		return false;
	if (is_context(x)) {
		error_text(x->body, err->text, sizeof(err->text));
		*ret_answer = ANSWER_CONTEXT;
		return false;
	}
	if (x->status >= 500 && x->status <= 504 && ++tries->samples < SAMPLES_MAX)
		return true;
	if (is_malformed(x))
		*ret_answer = ANSWER_MALFORMED;
	return false;
}

enum answer server_ask(struct server *s, struct json *request, int turn, int64_t deadline,
	struct json **ret_reply, struct err *err)
{
	struct tries tries = { 0 };
	enum answer answer;
	bool busy = false; /* so was the last answer: the record has it, and the request */

	for (;;) {
		CLEAN(exchange) struct exchange x = { 0 };
		char *body = json_line(request);

		if (!busy)
			record(s, "request", turn, json_copy(request), 0);
		x = run(s, "/v1/chat/completions", body, deadline, err);
		free(body);
		if (x.end == HTTP_ANSWERED && !(busy && is_busy(&x)))
			record(s, "reply", turn, json_copy(x.body), x.status);
		busy = x.end == HTTP_ANSWERED && is_busy(&x);
		if (x.end == HTTP_ANSWERED && x.status == 200 && json_is_object(x.body)) {
			*ret_reply = json_take(&x.body);
			return ANSWER_REPLY;
		}
		if (!try_again(s, &x, &tries, deadline, &answer, err))
			return answer;
		if (tries.samples)
			json_set_int(request, "seed", tries.samples);
	}
}
