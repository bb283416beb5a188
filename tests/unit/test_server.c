/* SPDX-License-Identifier: Apache-2.0 */
/* What can go wrong with a model server, against a scripted one. */
#include "model/talk.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "fake_server.h"
#include "test.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define ERROR(code, message, type)                                                                 \
	"{\"error\":{\"code\":" code ",\"message\":\"" message "\",\"type\":\"" type "\"}}"
#define SAY "{\"choices\":[{\"message\":{\"content\":\"Done.\"},\"finish_reason\":\"stop\"}]}"

struct fixture {
	struct loop loop;
	struct fake_server server;
	struct talk_spec spec;
	struct talk_result result;
	struct err err;
};

static enum shell_end no_shell(void *self, const char *command, int64_t timeout_s,
	size_t max_output, struct buf *out, struct err *err)
{
	(void)self;
	(void)command;
	(void)timeout_s;
	(void)max_output;
	(void)out;
	(void)err;
	return SHELL_RAN;
}

static void no_record(void *self, struct json *event)
{
	(void)self;
	json_free(event);
}

static void no_progress(void *self, int turn, const char *what)
{
	(void)self;
	(void)turn;
	(void)what;
}

static void fixture_init(struct fixture *f)
{
	*f = (struct fixture){ 0 };
	CHECK(loop_init(&f->loop, false, &f->err));
	f->spec = (struct talk_spec){ .system = "s",
		.user = "u",
		.turns = 12,
		.time_ms = 15000,
		.shell = no_shell,
		.record = no_record,
		.progress = no_progress };
}

static void fixture_release(struct fixture *f)
{
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

static void check_text(const char *text, const char *part)
{
	if (!strstr(text, part))
		CHECK_STR(text, part);
}

static bool sent(const struct fixture *f, size_t i, const char *part)
{
	return strstr(f->server.seen->request[i].body, part) != NULL;
}

static void check_end(const struct fixture *f, enum talk_end end, const char *reason)
{
	CHECK_STR(talk_end_name(f->result.end), talk_end_name(end));
	check_text(f->result.reason, reason);
}

#define UNREAD                                                                                     \
	ERROR("500",                                                                               \
		"The model produced output that does not match the expected peg-native format",    \
		"server_error")

TEST(unreadable_output_is_sampled_again)
{
	struct fixture f;

	fixture_init(&f);
	run(&f, { .status = 500, .body = UNREAD }, { .status = 500, .body = UNREAD },
		{ .body = SAY }, { .body = SAY });
	check_end(&f, TALK_ANSWERED, "");
	CHECK_INT(f.result.turns, 2);
	CHECK(!sent(&f, 0, "\"seed\""));
	CHECK(sent(&f, 1, "\"seed\":1"));
	CHECK(sent(&f, 2, "\"seed\":2"));
	CHECK(!sent(&f, 3, "\"seed\""));
	fixture_release(&f);
}

TEST(unreadable_output_is_a_lost_turn_after_three)
{
	struct fixture f;

	fixture_init(&f);
	run(&f, { .status = 500, .body = UNREAD }, { .status = 500, .body = UNREAD },
		{ .status = 500, .body = UNREAD }, { .body = SAY });
	CHECK(sent(&f, 3, "Your call could not be read."));
	check_end(&f, TALK_ANSWERED, "");
	CHECK_INT(f.result.turns, 2);
	fixture_release(&f);
}

TEST(other_failures_of_the_server_end_it)
{
	struct fixture f;

	fixture_init(&f);
	run(&f, { .status = 500, .body = ERROR("500", "kv cache broke", "server_error") },
		{ .status = 500, .body = ERROR("500", "kv cache broke", "server_error") },
		{ .status = 500, .body = ERROR("500", "kv cache broke", "server_error") });
	check_end(&f, TALK_SERVER, "failed with HTTP 500: kv cache broke");
	CHECK_INT(f.server.seen->requests, 3);
	fixture_release(&f);
}

TEST(errors_behind_a_200_are_errors)
{
	struct fixture f;

	fixture_init(&f);
	run(&f, { .body = ERROR("400", "bad field", "invalid_request_error") });
	check_end(&f, TALK_SERVER, "failed with HTTP 400: bad field");
	fixture_release(&f);
}

TEST(context_overflow_has_its_own_end)
{
	static const struct fake_step steps[] = {
		{ .status = 400, .body = ERROR("400", "too large", "exceed_context_size_error") },
		{ .status = 500,
			.body = ERROR("500", "Context size has been exceeded.", "server_error") },
		{ .status = 400,
			.body = "{\"error\":{\"message\":\"x\",\"code\":\"context_length_"
				"exceeded\"}}" },
		{ .status = 400,
			.body = ERROR(
				"400", "This model's maximum context length is 8192 tokens", "x") },
	};

	for (size_t i = 0; i < COUNT(steps); i++) {
		struct fixture f;

		fixture_init(&f);
		run_spec(&f, &(struct fake_spec){ .steps = &steps[i], .count = 1 });
		check_end(&f, TALK_CONTEXT, "the context of the model server is full");
		CHECK_INT(f.server.seen->requests, 1);
		fixture_release(&f);
	}
}

TEST(nobody_there)
{
	struct fixture f;

	fixture_init(&f);
	fake_start(&f.server, &(struct fake_spec){ 0 });
	f.spec.url = f.server.url;
	kill(f.server.pid, SIGKILL);
	CHECK(waitpid(f.server.pid, NULL, 0) == f.server.pid);
	CHECK(!talk_probe(&f.loop, f.server.url, NULL, clock_in(5000), &f.err));
	check_text(f.err.text, "no model server answers at http://127.0.0.1:");
	check_text(f.err.text, "Connection refused");
	CHECK(talk_run(&f.loop, &f.spec, &f.result, &f.err));
	check_end(&f, TALK_SERVER, "no model server answers");
	fixture_release(&f);
}

static void check_probe(const struct fake_spec *spec, int64_t wait_ms, const char *part)
{
	struct fixture f;

	fixture_init(&f);
	fake_start(&f.server, spec);
	if (part) {
		CHECK(!talk_probe(&f.loop, f.server.url, "k", clock_in(wait_ms), &f.err));
		check_text(f.err.text, part);
	} else {
		CHECK(talk_probe(&f.loop, f.server.url, NULL, clock_in(wait_ms), &f.err));
	}
	fixture_release(&f);
}

TEST(the_probe_says_what_is_wrong)
{
	check_probe(&(struct fake_spec){ 0 }, 5000, NULL);
	check_probe(
		&(struct fake_spec){ .models_status = 401 }, 5000, "refuses the key (HTTP 401)");
	check_probe(
		&(struct fake_spec){ .models_status = 403 }, 5000, "refuses the key (HTTP 403)");
	check_probe(&(struct fake_spec){ .models_status = 404 }, 5000, "wrong path");
	check_probe(&(struct fake_spec){ .models_status = 302 }, 5000, "redirects");
	check_probe(
		&(struct fake_spec){ .loading = 99 }, 700, "was not ready in time (HTTP 503: Loa");
	check_probe(&(struct fake_spec){ .loading = 2 }, 5000, NULL);
}

TEST(addresses_and_keys_are_checked)
{
	struct fixture f;

	fixture_init(&f);
	CHECK(!talk_probe(&f.loop, "localhost:8080", NULL, clock_in(1000), &f.err));
	check_text(f.err.text, "write http://HOST:PORT");
	CHECK(!talk_probe(&f.loop, "file:///etc/passwd", NULL, clock_in(1000), &f.err));
	CHECK(!talk_probe(&f.loop, "http://127.0.0.1:1", "a\r\nX: y", clock_in(1000), &f.err));
	check_text(f.err.text, "line break");
	fixture_release(&f);
}

TEST(the_address_may_end_in_v1)
{
	static const char *const tails[] = { "", "/", "/v1", "/v1/" };
	struct fixture f;
	char url[100];

	fixture_init(&f);
	fake_start(&f.server, &(struct fake_spec){ 0 });
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
	for (size_t i = 0; i < COUNT(tails); i++) {
		(void)snprintf(url, sizeof(url), "%s%s", f.server.url, tails[i]);
		f.spec.url = url;
		CHECK(talk_run(&f.loop, &f.spec, &f.result, &f.err));
		check_end(&f, TALK_EMPTY, "");
		check_text(
			f.server.seen->request[0].head, "POST /v1/chat/completions HTTP/1.1\r\n");
	}
	fixture_release(&f);
}

TEST(redirects_are_not_followed)
{
	struct fixture f;

	fixture_init(&f);
	run(&f, { .status = 307, .body = "", .header = "Location: /v1/chat/completions" });
	check_end(&f, TALK_SERVER, "redirects to another address (HTTP 307)");
	CHECK_INT(f.server.seen->requests, 1);
	fixture_release(&f);
}

TEST(the_time_limit_closes_the_socket)
{
	struct fixture f;
	int64_t start = clock_ms();

	fixture_init(&f);
	f.spec.time_ms = 600;
	run(&f, { .body = "hang" });
	check_end(&f, TALK_TIME, "the time limit of 0.6 s was reached");
	CHECK(clock_ms() - start < 5000);
	/* The next request is answered only after the server saw the socket close. */
	CHECK(talk_probe(&f.loop, f.server.url, NULL, clock_in(5000), &f.err));
	CHECK_INT(f.server.seen->hung_up, 1);
	fixture_release(&f);
}

TEST(an_interrupt_ends_it)
{
	static const struct fake_step step = { .body = "hang" };
	struct fixture f;

	fixture_init(&f);
	loop_release(&f.loop);
	fake_start(&f.server, &(struct fake_spec){ .steps = &step, .count = 1 });
	f.spec.url = f.server.url;
	CHECK(loop_init(&f.loop, true, &f.err));
	kill(getpid(), SIGTERM);
	CHECK(!talk_run(&f.loop, &f.spec, &f.result, &f.err));
	CHECK_INT(f.err.code, ERR_INTERRUPTED);
	fixture_release(&f);
}

TEST(replies_are_bounded)
{
	static char large[(9 << 20) + 1];
	static struct fake_step step = { .body = large };
	struct fixture f;

	memset(large, ' ', sizeof(large) - 1);
	fixture_init(&f);
	run_spec(&f, &(struct fake_spec){ .steps = &step, .count = 1 });
	check_end(&f, TALK_SERVER, "larger than 8 MiB");
	fixture_release(&f);
}

static void count_record(void *self, struct json *event)
{
	++*(int *)self;
	json_free(event);
}

TEST(a_busy_server_does_not_fill_the_record)
{
	struct fixture f;
	int events = 0;

	fixture_init(&f);
	f.spec.record = count_record;
	f.spec.self = &events;
	run(&f, { .status = 429, .body = "{}" }, { .status = 503, .body = "{}" },
		{ .status = 429, .body = "{}" }, { .status = 429, .body = "{}" }, { .body = SAY },
		{ .body = SAY });
	check_end(&f, TALK_ANSWERED, "");
	CHECK_INT(f.server.seen->requests, 6);
	/* A request, "busy", its reply at last; a request and its reply. */
	CHECK_INT(events, 5);
	fixture_release(&f);
}

TEST(a_reply_that_is_not_json)
{
	struct fixture f;

	fixture_init(&f);
	run(&f, { .body = "<html>hello" });
	check_end(&f, TALK_SERVER, "is no model server");
	fixture_release(&f);
}

TEST(a_broken_connection_is_tried_again)
{
	struct fixture f;

	fixture_init(&f);
	run(&f, { .body = "close" }, { .body = SAY }, { .body = SAY });
	check_end(&f, TALK_ANSWERED, "");
	CHECK_INT(f.server.seen->requests, 3);
	fixture_release(&f);
}

TEST(a_server_that_always_breaks_off_is_given_up)
{
	struct fixture f;

	fixture_init(&f);
	run(&f, { .body = "close" }, { .body = "close" }, { .body = "close" }, { .body = "close" },
		{ .body = "close" });
	check_end(&f, TALK_SERVER, "no model server answers");
	CHECK_INT(f.server.seen->requests, 4);
	fixture_release(&f);
}

/* Restarts the server when the first one has died of its request. */
struct medic {
	struct source source;
	struct fixture *f;
	int64_t due;
	bool done;
};

static int64_t medic_due(const void *self)
{
	return ((const struct medic *)self)->due;
}

static void medic_look(void *self, short events)
{
	static const struct fake_step steps[] = { { .body = "die" }, { .body = SAY },
		{ .body = SAY } };
	struct medic *m = self;
	unsigned port;

	(void)events;
	m->due = clock_in(20);
	if (waitpid(m->f->server.pid, NULL, WNOHANG) != m->f->server.pid)
		return;
	CHECK(sscanf(m->f->server.url, "http://127.0.0.1:%u", &port) == 1);
	fake_start(&m->f->server, &(struct fake_spec){ .steps = steps,
					  .count = COUNT(steps),
					  .port = (unsigned short)port,
					  .loading = m->f->server.seen->looks + 2 });
	m->due = CLOCK_NEVER;
	m->done = true;
}

TEST(a_server_that_dies_is_waited_for)
{
	struct fixture f;
	struct medic medic = { .source = { .fd = -1, .due = medic_due, .ready = medic_look },
		.f = &f };

	medic.source.self = &medic;
	fixture_init(&f);
	loop_add(&f.loop, &medic.source);
	run(&f, { .body = "die" });
	loop_remove(&f.loop, &medic.source);
	CHECK(medic.done);
	check_end(&f, TALK_ANSWERED, "");
	CHECK_INT(f.result.turns, 2);
	fixture_release(&f);
}

TEST_WITHIN(a_server_that_stays_away_is_given_up, 60)
{
	struct fixture f;
	int64_t start = clock_ms();

	fixture_init(&f);
	f.spec.time_ms = 2000;
	run(&f, { .body = "die" });
	check_end(&f, TALK_SERVER, "went away and did not come back");
	CHECK(clock_ms() - start < 10000);
	fixture_release(&f);
}
