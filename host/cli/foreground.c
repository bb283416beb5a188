/* SPDX-License-Identifier: Apache-2.0 */
/* One command in a machine, in the foreground. */
#include "foreground.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "ending.h"
#include "feed.h"
#include "guest.h"
#include "outlet.h"
#include "patience.h"
#include "terminal.h"

#define LOOK_MS	 10000 /* a running command is left alone that long, then asked about */
#define ALIVE_MS 15000 /* times the factor: a guest that lives answers within this */

struct foreground {
	const struct foreground_spec *spec;
	struct loop loop;
	struct guest guest;
	struct command *command;
	struct outlet out, err;
	uint64_t came; /* bytes of output */
	struct feed feed;
	struct terminal terminal;
	int signal; /* to die by, after cleaning up */
};

static size_t on_output(void *self, enum stream_part part, const uint8_t *untrusted, size_t len)
{
	struct foreground *f = self;

	f->came += len;
	return outlet_take(part == PART_STDOUT ? &f->out : &f->err, untrusted, len);
}

static void on_input_wanted(void *self)
{
	struct foreground *f = self;

	feed_push(&f->feed);
}

static void on_resized(void *self)
{
	struct foreground *f = self;
	uint16_t rows, columns;

	terminal_size(&f->terminal, &rows, &columns);
	if (f->command)
		command_resize(f->command, rows, columns);
}

/* All is said and written, or nobody listens, or the machine is gone, or the user is. */
static bool done(const void *arg)
{
	const struct foreground *f = arg;

	if (f->out.error || f->feed.error || f->feed.escaped)
		return true;
	if (command_result(f->command)->end == COMMAND_RUNS)
		return guest_is_gone(&f->guest);
	return outlet_is_empty(&f->out) && outlet_is_empty(&f->err);
}

/* False: nobody answers in the guest, which may have killed its agent; err says it. */
static bool is_alive(struct foreground *f, struct err *err)
{
	int64_t limit = (int64_t)ALIVE_MS * guest_time_factor(&f->guest);
	CLEAN(str) char *story = NULL;

	if (session_ping(guest_session(&f->guest), clock_in(limit), NULL, err))
		return true;
	if (err->code == ERR_INTERRUPTED)
		return false;
	if (done(f))
		return true;
	story = guest_story(&f->guest, command_result(f->command));
	return err_set(err, ERR_PEER, "the guest answers no more: %s", story);
}

/* Waits until all is done. */
static bool wait_done(struct foreground *f, struct err *err)
{
	struct patience patience;

	patience_init(&patience, f->spec->deadline_ms, clock_ms());
	for (;;) {
		int64_t look = clock_in(LOOK_MS), end = patience.deadline;
		bool waits;

		if (loop_until(&f->loop, done, f, look < end ? look : end, err))
			return true;
		if (err->code != ERR_TIME)
			return false;
		waits = !outlet_is_empty(&f->out) || !outlet_is_empty(&f->err);
		if (waits)
			patience_extend(&patience, f->came, clock_ms());
		if (clock_ms() >= patience.deadline || (!waits && !is_alive(f, err)))
			return false;
	}
}

static bool start(struct foreground *f, struct err *err)
{
	const struct foreground_spec *spec = f->spec;
	struct command_spec run = { .argv = spec->argv,
		.env = spec->env,
		.user = spec->user,
		.dir = spec->dir,
		.pty = spec->terminal,
		.deadline_ms = spec->deadline_ms,
		.grace_ms = GRACE_MS,
		.stream_input = spec->input,
		.input_wanted = on_input_wanted,
		.output = on_output,
		.self = f };

	if (spec->input)
		feed_init(&f->feed, &f->loop, STDIN_FILENO, &f->command, spec->terminal);
	if (spec->terminal) {
		if (!terminal_enter(&f->terminal, &f->loop, STDIN_FILENO, on_resized, f, err))
			return false;
		terminal_size(&f->terminal, &run.rows, &run.columns);
	}
	f->command = command_start(guest_session(&f->guest), &run, err);
	return f->command != NULL;
}

/* What our side had to do with the end; else it is the command's own. */
static int code_of(struct foreground *f)
{
	const char *who = f->spec->who;

	if (f->out.error == EPIPE) {
		f->signal = SIGPIPE;
		return EXIT_OURS;
	}
	/* A terminal that hangs up fails a moment before its signal comes. */
	if (f->spec->terminal && (f->out.error == EIO || f->feed.error == EIO)) {
		f->signal = SIGHUP;
		return EXIT_OURS;
	}
	if (f->out.error)
		return ending_say(who, "writing the output: %s", strerror(f->out.error));
	if (f->feed.error)
		return ending_say(who, "reading the input: %s", strerror(f->feed.error));
	if (f->feed.escaped)
		return ending_say(who, "left by Ctrl-] three times, and the %s",
			f->spec->machine_name ? "command was ended" : "machine is gone");
	return ending_of(f->spec, &f->guest, command_result(f->command));
}

/* The command had its last word, and left the cursor where it wants it. */
static bool is_said(const struct foreground *f)
{
	const struct command_result *r = f->command ? command_result(f->command) : NULL;

	return r && (r->end == COMMAND_EXITED || r->end == COMMAND_SIGNALLED) && !r->timed_out;
}

static int run_command(struct foreground *f, struct err *err)
{
	bool ended = start(f, err) && wait_done(f, err);

	terminal_leave(&f->terminal);
	if (f->spec->terminal && f->out.before && f->out.before != '\n' && !is_said(f))
		fputc('\n', stderr);
	if (ended)
		return code_of(f);
	if (err->code == ERR_INTERRUPTED)
		return EXIT_OURS;
	if (err->code != ERR_TIME)
		return ending_say(f->spec->who, "%s", err->text);
	ending_say(f->spec->who, "the guest did not end the command in time%s",
		f->spec->machine_name ? "" : ", so its machine was ended");
	return EXIT_TIMED_OUT;
}

static int boot_and_run(struct foreground *f)
{
	struct err err;
	int code;

	if (!loop_init(&f->loop, true, &err))
		return ending_say(f->spec->who, "%s", err.text);
	outlet_init(&f->out, &f->loop, STDOUT_FILENO, &f->command, PART_STDOUT, f->spec->terminal);
	outlet_init(&f->err, &f->loop, STDERR_FILENO, &f->command, PART_STDERR, f->spec->terminal);
	err.code = ERR_NONE;
	if (guest_open(&f->guest, &f->loop, f->spec->image_name, f->spec->machine_name, &err))
		code = run_command(f, &err);
	else
		code = err.code == ERR_INTERRUPTED ? EXIT_OURS
						   : ending_say(f->spec->who, "%s", err.text);
	if (f->loop.interrupted)
		f->signal = f->loop.signal;
	return code;
}

static void release(struct foreground *f)
{
	feed_release(&f->feed);
	command_free(f->command);
	f->command = NULL;
	guest_release(&f->guest);
	outlet_release(&f->out);
	outlet_release(&f->err);
	loop_release(&f->loop);
}

int foreground_run(const struct foreground_spec *spec)
{
	struct foreground f = { .spec = spec, .loop.signals = -1, .guest.box.who = spec->who };
	int code;

	if (spec->terminal && !isatty(STDIN_FILENO))
		return ending_say(spec->who,
			"standard input is no terminal: call it from one, or use postern exec "
			"--stdin for input from a file or a pipe");
	code = boot_and_run(&f);
	release(&f);
	if (f.signal)
		ending_die_by(f.signal);
	return code;
}
