/* SPDX-License-Identifier: Apache-2.0 */
/* Commands in the one VM of a test. */
#include "vm.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "test.h"

#define RETRY_MS 200
#define HEAD_MAX 4096 /* bytes kept of a task's output */

static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };

void vm_wait_ready(void)
{
	const struct command_spec spec = { .argv = (const char *const *)vm.image.ready,
		.env = env };
	int64_t until = vm_in(VM_LONG);
	struct command_result r;

	for (;;) {
		if (!command_run(vm.session, &spec, until, &r, &vm.err))
			CHECK_STR(vm.err.text, "a system that is up");
		if (r.end == COMMAND_EXITED && r.value == 0)
			return;
		/* Its root is not there yet, or it has not begun to start. */
		CHECK(clock_ms() < until);
		CHECK(loop_pause(&vm.loop, RETRY_MS, &vm.err));
	}
}

static size_t keep(void *self, enum stream_part part, const uint8_t *untrusted_data, size_t len)
{
	struct buf *out = self;

	(void)part;
	if (out->len < 65536)
		buf_add(out, untrusted_data, len);
	return len;
}

struct command_result vm_shell(const char *text, const char **ret_output)
{
	static struct buf out;
	const char *const argv[] = { "/bin/sh", "-c", text, NULL };
	const struct command_spec spec = { .argv = argv, .env = env, .output = keep, .self = &out };
	struct command_result result;

	buf_release(&out);
	if (!command_run(vm.session, &spec, vm_in(VM_LONG), &result, &vm.err)) {
		vm_tell(vm.err.text);
		CHECK_STR(vm.err.text, text);
	}
	*ret_output = buf_text(&out);
	return result;
}

void vm_says(const char *text, const char *wanted)
{
	const char *output;
	struct command_result result = vm_shell(text, &output);

	if (result.end != COMMAND_EXITED)
		CHECK_STR(result.text, text);
	CHECK_STR(output, wanted);
	CHECK_INT(result.value, 0);
}

unsigned long long vm_number(const char *text)
{
	const char *output;
	char *end;
	unsigned long long n;

	(void)vm_shell(text, &output);
	n = strtoull(output, &end, 10);
	if (end == output)
		CHECK_STR(output, "a number");
	return n;
}

void vm_ping(int64_t ms)
{
	if (!session_ping(vm.session, vm_in(ms), NULL, &vm.err)) {
		vm_tell(vm.err.text);
		CHECK_STR(vm.err.text, "PONG");
	}
}

static size_t count(void *self, enum stream_part part, const uint8_t *untrusted_data, size_t len)
{
	struct vm_task *t = self;
	size_t room = t->head.len < HEAD_MAX ? HEAD_MAX - t->head.len : 0;

	(void)part;
	buf_add(&t->head, untrusted_data, len < room ? len : room);
	t->bytes += len;
	return len;
}

struct vm_task *vm_task(const char *text)
{
	struct vm_task *t = xcalloc(1, sizeof(*t));
	const char *const argv[] = { "/bin/sh", "-c", text, NULL };
	const struct command_spec spec = {
		.argv = argv, .env = env, .stream_input = true, .output = count, .self = t
	};

	t->command = command_start(vm.session, &spec, &vm.err);
	if (!t->command)
		CHECK_STR(vm.err.text, text);
	return t;
}

struct bytes_wanted {
	const struct vm_task *task;
	uint64_t bytes;
};

static bool bytes_came(const void *arg)
{
	const struct bytes_wanted *w = arg;

	return w->task->bytes >= w->bytes || command_result(w->task->command)->end != COMMAND_RUNS;
}

void vm_task_bytes(struct vm_task *t, uint64_t bytes)
{
	const struct bytes_wanted w = { t, t->bytes + bytes };

	vm_until(bytes_came, &w, VM_LONG, "output comes");
	if (t->bytes < w.bytes)
		CHECK_STR(command_result(t->command)->text, "output");
}

static bool task_ended(const void *arg)
{
	const struct vm_task *t = arg;

	return command_result(t->command)->end != COMMAND_RUNS;
}

const struct command_result *vm_task_end(struct vm_task *t)
{
	vm_until(task_ended, t, VM_LONG, "the command ends");
	return command_result(t->command);
}

void vm_task_free(struct vm_task *t)
{
	command_free(t->command);
	buf_release(&t->head);
	free(t);
}
