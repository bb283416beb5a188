/* SPDX-License-Identifier: Apache-2.0 */
/* From a started machine to a system that is up. */
#include <stdio.h>
#include <string.h>

#include "internal.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"
#include "qemu.h"

#define START_MS 20000 /* QEMU's own start, on a busy host */
#define RETRY_MS 200   /* between two questions whether the system is up */
#define BOOT_MS	 60000 /* times the accelerator's factor */
#define ASK_MS	 600000

int64_t machine_boot_ms(const struct machine *m)
{
	return (int64_t)BOOT_MS * accel_time_factor(m->accel);
}

static bool over(const struct machine *m)
{
	return process_ended(m->qemu, NULL) || console_panicked(m->console) ||
	       session_broken(m->session);
}

static bool answers_or_over(const void *arg)
{
	const struct machine *m = arg;

	return qmp_greeted(m->qmp) || over(m);
}

static bool greets_or_over(const void *arg)
{
	const struct machine *m = arg;

	return session_greetings(m->session) || over(m);
}

bool machine_wait_hello(struct machine *m, int64_t deadline, struct err *err)
{
	int64_t start = clock_in(START_MS);

	/* A QEMU that hangs is told from a guest that is slow. */
	if (!loop_until(m->loop, answers_or_over, m, start < deadline ? start : deadline, err)) {
		if (err->code != ERR_TIME)
			return false;
		return err_set(err, ERR_TIME,
			"QEMU was started and does not answer: try `%s -display none` by hand",
			QEMU_PROGRAM);
	}
	if (!loop_until(m->loop, greets_or_over, m, deadline, err))
		return machine_fail(m, "the guest did not come up in time", err);
	if (session_greetings(m->session))
		return true;
	err->code = ERR_PEER;
	return machine_fail(m, "the guest did not come up", err);
}

/* What the ready command prints. */
struct answer {
	char text[WORD_MAX];
	size_t len;
};

static size_t take_answer(void *self, enum stream_part part, const uint8_t *untrusted, size_t len)
{
	struct answer *a = self;
	size_t room = sizeof(a->text) - 1 - a->len;
	size_t n = len < room ? len : room;

	if (part == PART_STDOUT && n) {
		memcpy(a->text + a->len, untrusted, n);
		a->len += n;
	}
	return len;
}

const char *const machine_env[] = { SEARCH_PATH_PAIR, "LANG=C.UTF-8", NULL };

enum readiness { READY, NOT_YET, READY_FAILED };

static enum readiness ask_ready(struct machine *m, int64_t deadline, struct err *err)
{
	struct answer answer = { 0 };
	const struct command_spec spec = { .argv = (const char *const *)m->image->ready,
		.env = machine_env,
		.deadline_ms = ASK_MS,
		.output = take_answer,
		.self = &answer };
	CLEAN(buf) struct buf word = { 0 };
	struct command_result result;

	if (!command_run(m->session, &spec, deadline, &result, err))
		return READY_FAILED;
	text_last_lines(&word, answer.text, answer.len, 1);
	(void)snprintf(m->system, sizeof(m->system), "%s", buf_text(&word));
	if (result.end == COMMAND_EXITED)
		/* A unit that failed is no reason to wait longer. */
		return result.value == 0 || !strcmp(m->system, "degraded") ? READY : NOT_YET;
	if (result.end == COMMAND_FAILED && result.kind == FAIL_NOT_READY)
		return NOT_YET;
	err_set(err, ERR_PEER, "%s", result.text);
	return READY_FAILED;
}

bool machine_wait_ready(struct machine *m, int64_t deadline, struct err *err)
{
	enum readiness ready = NOT_YET;

	if (!machine_wait_hello(m, deadline, err))
		return false;
	while (m->image->ready && ready == NOT_YET && clock_ms() < deadline) {
		ready = ask_ready(m, deadline, err);
		if (ready == NOT_YET && !loop_pause(m->loop, RETRY_MS, err))
			return false;
	}
	if (ready == READY || !m->image->ready)
		return true;
	if (ready == NOT_YET)
		return machine_fail(m,
			"the system in the guest did not come up in time; where the host is busy, "
			"try again",
			err);
	return machine_fail(m, "the system in the guest did not come up", err);
}

struct reboot {
	const struct machine *m;
	unsigned greetings; /* before */
};

static bool rebooted_or_over(const void *arg)
{
	const struct reboot *r = arg;

	return session_greetings(r->m->session) != r->greetings || over(r->m);
}

bool machine_reboot(struct machine *m, int64_t deadline, struct err *err)
{
	static const char *const argv[] = { "reboot", NULL };
	const struct command_spec spec = { .argv = argv, .env = machine_env };
	const struct reboot reboot = { m, session_greetings(m->session) };
	struct command_result result;

	if (!command_run(m->session, &spec, deadline, &result, err))
		return machine_fail(m, "the guest does not go down", err);
	/* One that is on its way down may have taken the command with it. */
	if (result.end == COMMAND_FAILED || (result.end == COMMAND_EXITED && result.value))
		return err_set(err, ERR_PEER, "the guest can't reboot: %s",
			result.end == COMMAND_FAILED ? result.text : "its command reboot fails");
	if (!loop_until(m->loop, rebooted_or_over, &reboot, deadline, err))
		return machine_fail(m, "the guest did not come back", err);
	return machine_wait_ready(m, deadline, err);
}
