/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers, between the pipe of the agent and the files. */
#include "carry.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "report.h"
#include "text.h"
#include "transfer.h"

#define REPORT 3
#define TRACES 262144 /* bytes of stack that a transfer uses, at most */

/* A transfer may live long: it keeps nothing but its pipe and its way to report. */
static int keep_alone(int report)
{
	(void)signal(SIGPIPE, SIG_IGN);
	(void)dup2(report, REPORT);
	(void)syscall(SYS_close_range, REPORT + 1, ~0u, 0);
	return REPORT;
}

static const char *path_of(struct bytes path)
{
	static char text[PATH_LENGTH];

	memcpy(text, path.data, path.len);
	text[path.len] = '\0';
	return text;
}

/* What a transfer left on the stack below us. */
__attribute__((noinline)) static void wipe_stack(void)
{
	uint8_t below[TRACES];

	explicit_bzero(below, sizeof(below));
}

static _Noreturn void tell(int socket, bool done, const struct transfer_result *result)
{
	struct report report = {
		.about = done ? REPORT_DONE : REPORT_FAILED,
		.kind = FAIL_FILE,
		.error = result->error,
		.entries = result->entries,
	};
	struct text text = text_in(report.text, sizeof(report.text));

	text_add_part(&text, result->text, strnlen(result->text, sizeof(result->text)));
	report_send(socket, &report, -1);
	_exit(!done);
}

_Noreturn void carry_out(struct bytes path, bool manifest, int report)
{
	struct transfer_result result = { 0 };

	report = keep_alone(report);
	tell(report, transfer_send(1, path_of(path), manifest, &result), &result);
}

_Noreturn void carry_in(struct bytes path, int report)
{
	struct transfer_result result = { 0 };
	bool done;

	report = keep_alone(report);
	done = transfer_take(0, path_of(path), &result);
	wipe_stack();
	tell(report, done, &result);
}
