/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host is killed at random bytes, and nothing that was promised is lost.
 *
 * How it works. Commands run all the time, each with a token that its shell adds to a file in the
 * guest before anything else. The connection is cut after a random number of bytes. Mostly the
 * session is attached again; sometimes a host without memory comes in its place. At the end the
 * file is read: a command whose exit was seen left its token once, no command left it twice. The
 * bytes that came and those that were said to be lost are all that were sent, each at its place.
 */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "vm.h"

#define LIMIT	   3600 /* s; every wait has a deadline of its own */
#define JOBS	   5	/* at a time */
#define TOKENS_MAX 65536
#define INPUT_MAX  (1 << 18)
#define BRIEFLY	   300 /* bytes: the two greetings, and what follows at once */
#define FRESH_HOST 10  /* one cut in so many is followed by a host without memory */

enum kind { PRINTS, COUNTS, ECHOES, SLEEPS, KINDS };

struct job {
	struct command *command;
	enum kind kind;
	unsigned token;
	unsigned size;
	uint64_t got;
	bool cancelled;	 /* asked for */
	char answer[16]; /* the beginning of the output */
};

static struct job jobs[JOBS];
static uint64_t seed;
static uint8_t pattern[INPUT_MAX];
/* What each token must have left in the file. */
static enum fate { UNUSED, ONCE, NEVER, PERHAPS } fates[TOKENS_MAX];
static unsigned tokens, lost_outputs, renewed;

static unsigned random_below(unsigned n)
{
	return (unsigned)(vm_random(&seed) % n);
}

/* Each byte at its place: what was lost was said before the next byte came. */
static void compare(const struct job *j, const uint8_t *data, size_t len)
{
	uint64_t at = j->got + command_result(j->command)->output_lost;

	CHECK(at + len <= j->size);
	if (j->kind == ECHOES)
		CHECK_MEM(data, pattern + at, len);
}

static size_t take(void *self, enum stream_part part, const uint8_t *untrusted_data, size_t len)
{
	struct job *j = self;

	CHECK_INT(part, PART_STDOUT);
	if (j->kind == PRINTS || j->kind == ECHOES)
		compare(j, untrusted_data, len);
	for (size_t i = 0; i < len && j->got + i < sizeof(j->answer) - 1; i++)
		j->answer[j->got + i] = (char)untrusted_data[i];
	j->got += len;
	return len;
}

/* Returns owned. */
static char *script(const struct job *j)
{
	static const char *const rest[KINDS] = {
		[COUNTS] = "exec wc -c",
		[ECHOES] = "exec cat",
		[SLEEPS] = "echo up; exec sleep 100000",
	};

	if (j->kind == PRINTS)
		return xasprintf(
			"echo %05u >>/tokens; exec head -c %u /dev/zero", j->token, j->size);
	return xasprintf("echo %05u >>/tokens; %s", j->token, rest[j->kind]);
}

static void start_job(struct job *j)
{
	static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
	CLEAN(str) char *text = NULL;
	const char *argv[] = { "/bin/sh", "-c", NULL, NULL };
	struct command_spec spec = { .argv = argv, .env = env, .output = take, .self = j };

	CHECK(tokens < TOKENS_MAX);
	*j = (struct job){ .kind = random_below(KINDS), .token = tokens++ };
	/* As often small as large. */
	j->size = random_below(1u << random_below(19));
	if (j->kind == COUNTS || j->kind == ECHOES) {
		spec.input = pattern;
		spec.input_len = j->size;
	}
	argv[2] = text = script(j);
	j->command = command_start(vm.session, &spec, &vm.err);
	if (!j->command)
		CHECK_STR(vm.err.text, "a command that starts");
}

static void judge_exit(const struct job *j, const struct command_result *r)
{
	CHECK_INT(r->value, 0);
	if (j->kind == PRINTS || j->kind == ECHOES)
		CHECK_INT(r->stdout_bytes + r->output_lost, j->size);
	else if (!r->output_lost)
		CHECK_INT(strtoul(j->answer, NULL, 10), j->size);
	CHECK_INT(r->stdout_bytes, j->got);
	lost_outputs += r->output_lost > 0;
}

static void end_job(struct job *j)
{
	const struct command_result *r = command_result(j->command);

	switch (r->end) {
	case COMMAND_EXITED:
		CHECK(j->kind != SLEEPS);
		judge_exit(j, r);
		fates[j->token] = ONCE;
		break;
	case COMMAND_SIGNALLED:
		CHECK(j->cancelled && r->cancelled);
		fates[j->token] = PERHAPS; /* it may have ended before its first word */
		break;
	case COMMAND_FAILED:
		CHECK_INT(r->kind, FAIL_BUSY);
		fates[j->token] = NEVER;
		break;
	default:
		/* The agent was there all the time: it knows. */
		CHECK_STR(r->text, "an outcome");
	}
	command_free(j->command);
	j->command = NULL;
}

/* It sleeps, and nobody has asked for its end yet. */
static bool is_to_be_cancelled(const struct job *j)
{
	return j->kind == SLEEPS && !j->cancelled &&
	       (j->got || command_result(j->command)->output_lost);
}

static bool one_ended_or_cut(const void *arg)
{
	(void)arg;
	for (int i = 0; i < JOBS; i++) {
		const struct job *j = &jobs[i];

		if (j->command &&
			(command_result(j->command)->end != COMMAND_RUNS || is_to_be_cancelled(j)))
			return true;
	}
	return wire_is_cut(vm.wire);
}

static bool cut_seen(const void *arg)
{
	(void)arg;
	return !session_is_attached(vm.session);
}

/* Takes what ended; starts others unless it is time to stop. Is there anything left? */
static bool tend(bool more)
{
	bool left = false;

	for (int i = 0; i < JOBS; i++) {
		struct job *j = &jobs[i];

		if (j->command && command_result(j->command)->end != COMMAND_RUNS)
			end_job(j);
		if (j->command && is_to_be_cancelled(j)) {
			command_cancel(j->command);
			j->cancelled = true;
		}
		if (!j->command && more)
			start_job(j);
		left = left || j->command;
	}
	return left;
}

/* The host program dies: nobody knows what became of its commands. */
static void forget_all(void)
{
	for (int i = 0; i < JOBS; i++) {
		if (!jobs[i].command)
			continue;
		fates[jobs[i].token] = PERHAPS;
		command_free(jobs[i].command);
		jobs[i].command = NULL;
	}
}

static void come_back(void)
{
	vm_until(cut_seen, NULL, VM_LONG, "the session sees that it was cut");
	for (unsigned n = random_below(3); n > 0; n--)
		vm_attach_briefly(1 + random_below(BRIEFLY));
	if (random_below(FRESH_HOST)) {
		vm_attach();
		return;
	}
	renewed++;
	forget_all();
	vm_renew(false);
}

static void check_tokens(void)
{
	static unsigned char seen[TOKENS_MAX];
	struct vm_task *t = vm_task("sort -n /tokens | uniq -c | awk '$1 != 1'");
	CLEAN(buf) struct buf all = { 0 };
	unsigned long n;
	char *end;

	CHECK_INT(vm_task_end(t)->end, COMMAND_EXITED);
	CHECK_STR(buf_text(&t->head), "");
	vm_task_free(t);
	for (unsigned from = 1; from <= tokens; from += 500) {
		CLEAN(str) char *part = xasprintf("sed -n %u,%up /tokens", from, from + 499);
		const char *said;

		CHECK_INT(vm_shell(part, &said).end, COMMAND_EXITED);
		buf_str(&all, said);
	}
	for (const char *at = buf_text(&all); n = strtoul(at, &end, 10), end != at; at = end) {
		CHECK(n < tokens);
		seen[n]++;
	}
	for (unsigned i = 0; i < tokens; i++) {
		if ((fates[i] == ONCE && seen[i] != 1) || (fates[i] == NEVER && seen[i]) ||
			seen[i] > 1)
			printf("# token %05u: fate %d, seen %d times\n", i, fates[i], seen[i]);
		CHECK(fates[i] != UNUSED && seen[i] <= 1);
		CHECK(fates[i] != ONCE || seen[i]);
		CHECK(fates[i] != NEVER || !seen[i]);
	}
}

TEST_WITHIN(nothing_promised_is_lost_by_cuts_at_random_bytes, LIMIT)
{
	unsigned rounds = vm_rounds(200), cuts;

	seed = vm_seed();
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)vm_random(&seed);
	vm_start(&(struct vm_spec){ .image = "mini", .memory_mib = 128 });
	for (cuts = 0; cuts < rounds; cuts++) {
		vm.wire->left = 1 + vm_random(&seed) % (1u << random_below(21));
		while (!wire_is_cut(vm.wire)) {
			if (session_is_open(vm.session))
				(void)tend(true);
			vm_until(one_ended_or_cut, NULL, VM_LONG, "a command ends, or the cut");
		}
		come_back();
	}
	while (tend(false))
		vm_until(one_ended_or_cut, NULL, VM_LONG, "a command ends");
	check_tokens();
	printf("# %u cuts, %u of them with a new host; %u commands, %u of them lost output\n", cuts,
		renewed, tokens, lost_outputs);
	CHECK_INT(vm.wedged, 0);
	vm_stop();
}
