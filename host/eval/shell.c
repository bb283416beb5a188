/* SPDX-License-Identifier: Apache-2.0 */
/* Commands in the machine, one after the other, through reboots to whatever end. */
#include "shell.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"

#define GRACE_MS    2000
#define PING_MS	    10000     /* a running command is left alone that long, then asked about */
#define ALIVE_MS    15000     /* x factor: a guest that lives answers within this */
#define DOWN_MS	    120000    /* x factor: shutting down and the first HELLO of the new boot */
#define READY_MS    60000     /* x factor: from HELLO to a system that is up */
#define STATE_MS    5000      /* x factor: systemctl is-system-running */
#define MEMORY_KEEP (1 << 20) /* of the begin of an output, and of its end */

const char *const shell_env[] = {
	SEARCH_PATH_PAIR,
	"HOME=/root",
	"USER=root",
	"LOGNAME=root",
	"SHELL=/bin/bash",
	"LANG=C.UTF-8",
	"PAGER=cat",
	"SYSTEMD_PAGER=cat",
	"TERM=dumb",
	"DEBIAN_FRONTEND=noninteractive",
	NULL,
};

/* What waiting for the guest has come to. */
enum wait_end {
	WAIT_DONE,
	WAIT_GONE, /* no answer, or no end */
	WAIT_HOST, /* err is set */
};

void shell_init(struct shell *sh, struct loop *loop, struct machine *machine, struct record *record,
	int factor, int64_t until)
{
	*sh = (struct shell){
		.loop = loop,
		.machine = machine,
		.record = record,
		.factor = factor,
		.until = until,
		.greetings = session_greetings(machine_session(machine)),
	};
}

static bool is_interrupted(const struct err *err)
{
	return err->code == ERR_INTERRUPTED;
}

/* The machine is lost: by its own doing, as far as we can see. */
static enum shell_end lost(struct shell *sh, const char *what)
{
	CLEAN(str) char *story = NULL;

	switch (machine_state(sh->machine)) {
	case MACHINE_OFF:
		(void)snprintf(sh->why, sizeof(sh->why), "the machine was powered off");
		return SHELL_OFF;
	case MACHINE_PANICKED:
	case MACHINE_DIED:
		story = machine_story(sh->machine);
		(void)snprintf(sh->why, sizeof(sh->why), "%s", story);
		return SHELL_CLOSED;
	case MACHINE_RUNS:
		break;
	}
	(void)snprintf(sh->why, sizeof(sh->why), "channel closed by the guest: %s", what);
	return SHELL_CLOSED;
}

static bool machine_has_ended(const void *shell)
{
	const struct shell *sh = shell;

	return machine_state(sh->machine) != MACHINE_RUNS;
}

/* A guest that went away has either started anew, or ended, or broken its channel. */
static bool went_somewhere(const void *shell)
{
	const struct shell *sh = shell;
	const struct session *s = machine_session(sh->machine);

	return machine_has_ended(sh) || session_broken(s) || session_greetings(s) != sh->greetings;
}

static enum shell_end lost_channel(struct shell *sh, struct err *err)
{
	const char *broken = session_broken(machine_session(sh->machine));
	CLEAN(str) char *what = xstrdup(broken ? broken : "no answer");

	/* The end of QEMU shows on the channel first. */
	if (!loop_until(sh->loop, machine_has_ended, sh, clock_in(5000), err) &&
		err->code != ERR_TIME)
		return SHELL_HOST;
	return lost(sh, what);
}

/* The guest goes down, is gone or has started anew: waits until it is up again, or lost. */
static enum shell_end follow(struct shell *sh, struct buf *out, struct err *err)
{
	int64_t limit = (int64_t)DOWN_MS * sh->factor;

	if (!loop_until(sh->loop, went_somewhere, sh, clock_in(limit), err)) {
		if (err->code != ERR_TIME)
			return SHELL_HOST;
		return lost(sh, "it went down and did not come back");
	}
	if (machine_has_ended(sh))
		return lost(sh, NULL);
	if (session_broken(machine_session(sh->machine)))
		return lost_channel(sh, err);
	if (!machine_wait_ready(sh->machine, clock_in((int64_t)READY_MS * sh->factor), err)) {
		if (is_interrupted(err))
			return SHELL_HOST;
		if (machine_has_ended(sh) || session_broken(machine_session(sh->machine)))
			return lost_channel(sh, err);
		buf_str(out, "[the machine rebooted; its start is not complete yet]\n");
	} else {
		buf_str(out, "[the machine rebooted and is up again]\n");
	}
	sh->greetings = session_greetings(machine_session(sh->machine));
	return SHELL_RAN;
}

static bool has_ended(const void *command)
{
	return command_result(command)->end != COMMAND_RUNS;
}

/* Is the guest there at all? A session that is greeting anew counts when it is open in time. */
static enum wait_end ask_alive(struct shell *sh, struct err *err)
{
	struct session *s = machine_session(sh->machine);
	int64_t deadline = clock_in((int64_t)ALIVE_MS * sh->factor);

	if (session_is_open(s) ? session_ping(s, deadline, NULL, err)
			       : session_wait_open(s, deadline, err))
		return WAIT_DONE;
	return is_interrupted(err) ? WAIT_HOST : WAIT_GONE;
}

static enum wait_end wait_command(
	struct shell *sh, const struct command *c, int64_t deadline, struct err *err)
{
	while (clock_ms() < deadline) {
		enum wait_end alive;
		int64_t slice = clock_in(PING_MS);

		if (loop_until(sh->loop, has_ended, c, slice < deadline ? slice : deadline, err))
			return WAIT_DONE;
		if (err->code != ERR_TIME)
			return WAIT_HOST;
		alive = ask_alive(sh, err);
		if (has_ended(c))
			return WAIT_DONE;
		if (alive != WAIT_DONE)
			return alive;
	}
	return WAIT_GONE;
}

struct run {
	const char *const *argv;
	const char *dir;
	const char *const *env;
	int64_t limit_ms;
	struct capture *capture;
};

/* Runs it once. WAIT_DONE: the result is in sh->last, LOST included. */
static enum wait_end run_once(struct shell *sh, const struct run *run, struct err *err)
{
	const struct command_spec spec = {
		.argv = run->argv,
		.env = run->env,
		.dir = run->dir,
		.deadline_ms = (uint32_t)run->limit_ms,
		.grace_ms = GRACE_MS,
		.output = capture_add,
		.self = run->capture,
	};
	struct session *s = machine_session(sh->machine);
	struct command *c = command_start(s, &spec, err);
	int64_t hard = clock_in(run->limit_ms + GRACE_MS + (int64_t)ALIVE_MS * sh->factor);
	enum wait_end end = WAIT_DONE;

	if (c) {
		end = wait_command(sh, c, hard, err);
		if (end == WAIT_DONE)
			sh->last = *command_result(c);
		command_free(c);
		return end;
	}
	/* Refused here, or the session went away under us. */
	sh->last = (struct command_result){ .end = COMMAND_LOST };
	if (session_is_open(s))
		sh->last.end = COMMAND_FAILED;
	(void)snprintf(sh->last.text, sizeof(sh->last.text), "%.200s", err->text);
	return WAIT_DONE;
}

/* systemd says "stopping" from the moment on that it was asked to. */
static enum wait_end is_stopping(struct shell *sh, bool *ret_stopping, struct err *err)
{
	static const char *const argv[] = { "systemctl", "is-system-running", NULL };
	const struct command_result kept = sh->last;
	CLEAN(capture) struct capture capture = { 0 };
	CLEAN(buf) struct buf text = { 0 };
	const struct run run = { argv, "/", shell_env, (int64_t)STATE_MS * sh->factor, &capture };
	enum wait_end end;

	if (!capture_open(&capture, 256, NULL, err))
		return WAIT_HOST;
	end = run_once(sh, &run, err);
	capture_join(&capture, &text);
	*ret_stopping = sh->last.end == COMMAND_LOST || !strncmp(buf_text(&text), "stopping", 8);
	sh->last = kept;
	return end;
}

static bool may_end_the_machine(const char *text)
{
	static const char *const words[] = { "reboot", "shutdown", "poweroff", "halt", "init ",
		"kexec", "systemctl" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strstr(text, words[i]))
			return true;
	return false;
}

/* What a command came to, for the model: output, then one line. */
static void describe(
	const struct shell *sh, const struct run *run, size_t max_output, struct buf *out)
{
	const struct command_result *r = &sh->last;
	const struct capture *c = run->capture;
	CLEAN(buf) struct buf output = { 0 };

	capture_join(c, &output);
	if (output.len)
		output_for_model(buf_text(&output), output.len, max_output, out);
	else
		buf_str(out, "(no output)");
	if (buf_text(out)[out->len - 1] != '\n')
		buf_str(out, "\n");
	if (!capture_is_whole(c))
		buf_printf(
			out, "[the output had %llu bytes in all]\n", (unsigned long long)c->bytes);
	if (r->end == COMMAND_EXITED)
		buf_printf(out, "[exit code: %d]", r->value);
	else if (r->end == COMMAND_SIGNALLED)
		buf_printf(out, "[ended by signal %d (%s)]", r->value,
			strsignal(r->value) ? strsignal(r->value) : "unknown");
	else if (r->end == COMMAND_FAILED)
		buf_printf(out, "[not run: %s]", r->text);
	else
		buf_str(out, "[the machine rebooted while this ran]");
	if (r->timed_out)
		buf_printf(out, " (timed out after %lld s)", (long long)(run->limit_ms / 1000));
	buf_str(out, "\n");
	if (r->left_behind)
		buf_printf(out, "[%u process%s of it still run%s]\n", r->left_behind,
			r->left_behind == 1 ? "" : "es", r->left_behind == 1 ? "s" : "");
}

static void note_command(
	struct shell *sh, const char *text, const struct run *run, const char *file, double seconds)
{
	struct json *event = json_object();

	json_set_str(event, "type", "output");
	json_set_int(event, "number", sh->count);
	json_set(event, "command", record_text(text, strlen(text), SIZE_MAX));
	json_set_str(event, "file", file);
	json_set_int(event, "bytes", (int64_t)run->capture->bytes);
	json_set_int(event, "bytes_in_file", (int64_t)run->capture->file_bytes);
	json_set(event, "took", json_number(seconds));
	record_event(sh->record, event);
}

/* After a command: did it, or something else, take the machine down? */
static enum shell_end look_after(
	struct shell *sh, const char *text, struct buf *out, struct err *err)
{
	bool stopping = sh->last.end == COMMAND_LOST || went_somewhere(sh);
	enum wait_end end = WAIT_DONE;

	if (!stopping && may_end_the_machine(text))
		end = is_stopping(sh, &stopping, err);
	if (end == WAIT_HOST)
		return SHELL_HOST;
	if (end == WAIT_GONE)
		return lost_channel(sh, err);
	return stopping ? follow(sh, out, err) : SHELL_RAN;
}

static enum shell_end run_and_tell(struct shell *sh, const struct run *run, const char *text,
	size_t max_output, struct buf *out, struct err *err)
{
	CLEAN(str) char *file = xasprintf("commands/%d.out", ++sh->count);
	CLEAN(str) char *path = record_path(sh->record, file);
	int64_t start = clock_ms();
	enum wait_end end;

	if (!capture_open(run->capture, MEMORY_KEEP, path, err))
		return SHELL_HOST;
	end = run_once(sh, run, err);
	note_command(sh, text, run, file, (double)(clock_ms() - start) / 1000);
	if (end == WAIT_HOST)
		return SHELL_HOST;
	if (end == WAIT_GONE)
		return lost_channel(sh, err);
	describe(sh, run, max_output, out);
	return look_after(sh, text, out, err);
}

static int64_t limit_of(const struct shell *sh, int64_t ms)
{
	int64_t left = sh->until - clock_ms();

	return left < 1000 ? 1000 : left < ms ? left : ms;
}

/* Notices what happened to the machine since the last command. */
static enum shell_end be_ready(struct shell *sh, struct buf *out, struct err *err)
{
	const struct session *s = machine_session(sh->machine);

	if (went_somewhere(sh) || !session_is_open(s))
		return follow(sh, out, err);
	return SHELL_RAN;
}

enum shell_end shell_command(struct shell *sh, const char *command, int64_t timeout_s,
	size_t max_output, struct buf *out, struct err *err)
{
	const char *const argv[] = { "sh", "-c", command, NULL };
	CLEAN(capture) struct capture capture = { .fd = -1 };
	int64_t ms = (timeout_s < 86400 ? timeout_s : 86400) * 1000 * sh->factor;
	const struct run run = { argv, "/root", shell_env, limit_of(sh, ms), &capture };
	enum shell_end end = be_ready(sh, out, err);

	return end == SHELL_RAN ? run_and_tell(sh, &run, command, max_output, out, err) : end;
}

enum shell_end shell_script(
	struct shell *sh, const char *text, size_t max_output, struct buf *out, struct err *err)
{
	const char *const argv[] = { "sh", "-eu", "-c", text, NULL };
	CLEAN(capture) struct capture capture = { .fd = -1 };
	const struct run run = { argv, "/root", shell_env, limit_of(sh, INT64_MAX), &capture };
	enum shell_end end = be_ready(sh, out, err);

	return end == SHELL_RAN ? run_and_tell(sh, &run, text, max_output, out, err) : end;
}
