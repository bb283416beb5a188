/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random schedules of one session and a guest as it should be: whatever order things come in, with
 * short writes, slow readers, closed windows and channels that end anywhere, no side says more than
 * it may, every byte arrives in order or is counted as lost, and everything ends.
 */
#include "model.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/loop.h"
#include "test.h"

#define SCHEDULES 2000
#define STEPS	  300
#define PATIENCE  20000 /* turns in which all must end */

static struct loop loop;
static struct session *session;
static struct model model;
static struct err err;

/* The caller of a command: it holds output back, and has input to give. */
struct caller {
	uint32_t id;
	bool started, memory, stream, given_up;
	size_t held[2];
	uint64_t given, length; /* of the input */
} callers[MODEL_COMMANDS];

#define HOLDS(condition) model_check(&model, condition, #condition)

static size_t take(void *self, enum stream_part part, const uint8_t *data, size_t len)
{
	struct caller *caller = self;
	const struct command *c = model.commands[caller->id - 1].host;
	const struct output *o = &c->output[part - PART_STDOUT];
	size_t now = model_random(&model, 3) ? len : model_random(&model, (uint32_t)len + 1);

	HOLDS(!memcmp(data, model_pattern(caller->id, part, o->bytes + o->lost - len), len));
	caller->held[part - PART_STDOUT] += len - now;
	return now;
}

static uint64_t random_length(void)
{
	return model_random(&model, 4) ? model_random(&model, 3000)
				       : model_random(&model, MODEL_LENGTH);
}

static void start(void)
{
	static const char *const argv[] = { "x", NULL };
	unsigned i = 0;
	struct command_spec spec = { .argv = argv, .output = take };

	while (i < MODEL_COMMANDS && callers[i].started)
		i++;
	if (i == MODEL_COMMANDS || !session_is_open(session))
		return;
	callers[i].length = random_length();
	callers[i].memory = model_random(&model, 2);
	callers[i].stream = !callers[i].memory && model_random(&model, 2);
	callers[i].id = i + 1;
	spec.self = &callers[i];
	spec.input = callers[i].memory ? model_pattern(i + 1, PART_STDIN, 0) : NULL;
	spec.input_len = callers[i].length;
	spec.stream_input = callers[i].stream;
	model.commands[i].length[0] = random_length();
	model.commands[i].length[1] = random_length();
	model.commands[i].host = command_start(session, &spec, &err);
	HOLDS(model.commands[i].host);
	callers[i].started = true;
}

static void consume(unsigned i, uint32_t max)
{
	for (unsigned part = 0; part < 2; part++) {
		size_t n = callers[i].held[part] < max ? callers[i].held[part] : max;

		callers[i].held[part] -= n;
		if (model.commands[i].host)
			command_consumed(model.commands[i].host, PART_STDOUT + part, n);
	}
}

static void give(unsigned i, uint32_t max)
{
	struct caller *caller = &callers[i];
	struct command *c = model.commands[i].host;
	uint64_t left = caller->length - caller->given;

	if (!c || !caller->stream || !c->session || c->input.end)
		return;
	caller->given += command_input(
		c, model_pattern(i + 1, PART_STDIN, caller->given), left < max ? left : max);
	if (caller->given == caller->length)
		command_input_end(c);
}

static void attach(void)
{
	int ours, theirs;

	if (model_random(&model, 2))
		session_detach(session);
	HOLDS(fd_pair(&ours, &theirs, &err));
	model_attach(&model, theirs);
	session_attach(session, ours);
}

static void turn_host(short events)
{
	struct source *s = loop.sources[0];

	if (session_is_attached(session) && (s->wants(s->self) & events))
		s->ready(s->self, events);
	if (session_broken(session))
		printf("# %s\n", session_broken(session));
	HOLDS(!session_broken(session));
}

static void give_up(unsigned i)
{
	command_free(model.commands[i].host);
	model.commands[i].host = NULL;
	callers[i].given_up = callers[i].started;
}

static void step(void)
{
	uint32_t what = model_random(&model, 64), i = model_random(&model, MODEL_COMMANDS);
	uint32_t most = 1u << model_random(&model, 18);

	if (what < 14)
		turn_host(model_random(&model, 2) ? POLLIN : POLLOUT);
	else if (what < 26)
		model_read(&model, most);
	else if (what < 38)
		model_write(&model, most);
	else if (what < 46)
		model_work(&model, i, most);
	else if (what < 52)
		consume(i, most);
	else if (what < 58)
		give(i, most);
	else if (what < 62)
		start();
	else if (!model_random(&model, 4))
		attach();
	else if (!model_random(&model, 10))
		give_up(i);
}

static bool all_ended(void)
{
	for (unsigned i = 0; i < MODEL_COMMANDS; i++) {
		const struct model_command *c = &model.commands[i];

		if (c->host && c->host->session)
			return false;
		if (c->ended && !c->acknowledged)
			return false;
	}
	return !session->n_operations;
}

/* Everything is willing: then nothing may wait for ever. */
static void settle(void)
{
	for (unsigned n = 0; !all_ended(); n++) {
		HOLDS(n < PATIENCE);
		turn_host(POLLIN);
		turn_host(POLLOUT);
		model_read(&model, SIZE_MAX);
		for (unsigned i = 0; i < MODEL_COMMANDS; i++) {
			consume(i, UINT32_MAX);
			give(i, UINT32_MAX);
			model_work(&model, i, UINT32_MAX);
			model_write(&model, SIZE_MAX);
		}
	}
}

static void check_ends(void)
{
	for (unsigned i = 0; i < MODEL_COMMANDS; i++) {
		const struct model_command *c = &model.commands[i];
		const struct command_result *r = c->host ? &c->host->result : NULL;

		if (!r || r->end == COMMAND_LOST)
			continue;
		HOLDS(r->end == COMMAND_EXITED && r->value == 7);
		HOLDS(r->stdout_bytes + r->stderr_bytes + r->output_lost ==
			c->length[0] + c->length[1]);
		HOLDS(c->arrived ==
			(callers[i].memory || callers[i].stream ? callers[i].length : 0));
	}
}

static void play(uint64_t seed)
{
	int ours;

	memset(callers, 0, sizeof(callers));
	model_init(&model, seed);
	CHECK(loop_init(&loop, false, &err));
	CHECK(fd_pair(&ours, &model.fd, &err));
	session = session_new(&loop, ours);
	session_keep(session);
	turn_host(POLLIN);
	for (int i = 0; i < STEPS; i++)
		step();
	settle();
	check_ends();
	for (unsigned i = 0; i < MODEL_COMMANDS; i++)
		command_free(model.commands[i].host);
	session_free(session);
	fd_close(&model.fd);
	loop_release(&loop);
}

TEST_WITHIN(random_schedules_lose_nothing_and_end, 120)
{
	for (uint64_t seed = 1; seed <= SCHEDULES; seed++)
		play(seed);
}
