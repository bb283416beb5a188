/* SPDX-License-Identifier: Apache-2.0 */
/* postern exec: one command in a new machine that is gone afterwards. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "command.h"
#include "machine/machine.h"
#include "outlet.h"

#define EXIT_TIMED_OUT	    124
#define EXIT_OURS	    125
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND	    127

#define BOOT_MS	      30000 /* times the accelerator's factor */
#define GRACE_MS      5000
#define ANSWER_MS     15000 /* that the guest is late with the end of a command */
#define LOOK_MS	      10000 /* a running command is left alone that long, then asked about */
#define ALIVE_MS      15000 /* times the factor: a guest that lives answers within this */
#define SECONDS_LIMIT 2000000

struct exec {
	const char *image_name, *dir;
	const char *const *argv;
	const char *env[ENV_MAX + 1]; /* NULL-ended */
	size_t envc;
	uint32_t deadline_ms; /* 0: none */

	struct loop loop;
	struct image image;
	char *scratch; /* folder of the overlay; NULL: none, or gone already */
	struct machine *machine;
	struct command *command;
	struct outlet out, err;
	int signal; /* to die by, after cleaning up */
};

static const char *const default_env[] = {
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME=/root",
	"USER=root",
	"LOGNAME=root",
	"SHELL=/bin/sh",
	"LANG=C.UTF-8",
	"TERM=dumb",
};

/* Adds or replaces. Returns what is wrong with the pair; NULL: nothing. */
static const char *set_env(struct exec *e, const char *pair)
{
	size_t name = strcspn(pair, "=");

	if (!name || !pair[name])
		return "want NAME=VALUE";
	for (size_t i = 0; i < e->envc; i++)
		if (!strncmp(e->env[i], pair, name + 1)) {
			e->env[i] = pair;
			return NULL;
		}
	if (e->envc == ENV_MAX)
		return "there are too many variables before it";
	e->env[e->envc++] = pair;
	return NULL;
}

static bool set_seconds(struct exec *e, const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds > 0) || seconds > SECONDS_LIMIT)
		return false;
	e->deadline_ms = (uint32_t)(seconds * 1000);
	if (!e->deadline_ms)
		e->deadline_ms = 1;
	return true;
}

/* Returns what is wrong with the value; NULL: nothing. */
static const char *take_option(struct exec *e, int option, const char *value)
{
	switch (option) {
	case 'i':
		e->image_name = value;
		return NULL;
	case 't':
		return set_seconds(e, value) ? NULL : "want seconds, above 0 and up to 2000000";
	case 'w':
		e->dir = value;
		return *value == '/' ? NULL : "want an absolute path of the guest";
	default:
		return set_env(e, value);
	}
}

/* Returns 0, or the exit code of a wrong use: ours, for 2 may be the guest program's own. */
static int parse(struct exec *e, int argc, char **argv)
{
	static const struct option no_longs[] = { { 0 } };
	const char *wrong;
	struct err err;
	int option;

	while ((option = getopt_long(argc, argv, "+:i:t:w:e:", no_longs, NULL)) != -1) {
		if (option == ':' || option == '?') {
			option_refused(option, argv, &err);
			return usage_error(&cmd_exec, "%s", err.text), EXIT_OURS;
		}
		wrong = take_option(e, option, optarg);
		if (wrong)
			return usage_error(&cmd_exec, "-%c %s: %s", option, optarg, wrong),
			       EXIT_OURS;
	}
	if (optind == argc)
		return usage_error(&cmd_exec, "no command given"), EXIT_OURS;
	e->argv = (const char *const *)argv + optind;
	return 0;
}

/* The overlay lives in a folder of its own; returns its path, owned. */
static char *make_overlay(struct exec *e, struct err *err)
{
	CLEAN(str) char *parent = home_path("machines");
	char *scratch, *overlay;

	if (!dir_make(parent, err))
		return NULL;
	scratch = xasprintf("%s/exec.XXXXXX", parent);
	if (!mkdtemp(scratch)) {
		err_errno(err, "%s", scratch);
		free(scratch);
		return NULL;
	}
	e->scratch = scratch;
	overlay = xasprintf("%s/disk.qcow2", scratch);
	if (!overlay_create(overlay, e->image.disk, err)) {
		free(overlay);
		return NULL;
	}
	return overlay;
}

static void remove_scratch(struct exec *e)
{
	struct err err;

	if (e->scratch && !dir_remove(e->scratch, &err))
		fprintf(stderr, "postern exec: %s\n", err.text);
	free(e->scratch);
	e->scratch = NULL;
}

static bool be_sealed(struct exec *e, struct err *err)
{
	bool sealed;

	if (!machine_is_sealed(e->machine, &sealed, err))
		return false;
	return sealed ||
	       err_set(err, ERR_DENIED,
		       "this QEMU gave the machine a network device or another that it was not "
		       "asked for: "
		       "nothing was run; look for a wrapper of qemu-system-x86_64 in PATH");
}

static bool boot(struct exec *e, struct err *err)
{
	CLEAN(str) char *overlay = NULL;
	struct machine_spec spec = { .image = &e->image };
	int64_t deadline;

	if (!image_open(e->image_name, &e->image, err))
		return false;
	if (e->image.disk && !(overlay = make_overlay(e, err)))
		return false;
	spec.overlay = overlay;
	e->machine = machine_start(&e->loop, &spec, err);
	if (!e->machine)
		return false;
	deadline = clock_in((int64_t)BOOT_MS * accel_time_factor(machine_accel(e->machine)));
	if (!machine_wait_hello(e->machine, deadline, err))
		return false;
	/* QEMU has it open: without a name it can't be left behind, however we end. */
	remove_scratch(e);
	return be_sealed(e, err) && machine_wait_ready(e->machine, deadline, err);
}

static size_t on_output(void *self, enum stream_part part, const uint8_t *untrusted, size_t len)
{
	struct exec *e = self;

	return outlet_take(part == PART_STDOUT ? &e->out : &e->err, untrusted, len);
}

/* All is said and written, or nobody listens, or the machine is gone. */
static bool done(const void *arg)
{
	const struct exec *e = arg;

	if (e->out.error)
		return true;
	if (command_result(e->command)->end == COMMAND_RUNS)
		return machine_state(e->machine) != MACHINE_RUNS;
	return outlet_is_empty(&e->out) && outlet_is_empty(&e->err);
}

static int say(const char *text)
{
	fprintf(stderr, "postern exec: %s\n", text);
	return EXIT_OURS;
}

static int say_not_found(const struct exec *e)
{
	const char *name = e->argv[0];
	bool is_line = !e->argv[1] && name[strcspn(name, " \t\n")];

	fprintf(stderr, "postern exec: %s: not found in the guest (image %s)%s\n", name,
		e->image.name, is_line ? "; for a shell line use: sh -c '…'" : "");
	return EXIT_NOT_FOUND;
}

static int say_no_directory(const struct exec *e, const char *why)
{
	const char *dir = e->dir ? e->dir : "/";

	if (!strcmp(why, strerror(ENOENT)))
		fprintf(stderr, "postern exec: -w %s: no such directory in the guest\n", dir);
	else
		fprintf(stderr, "postern exec: -w %s: can't be entered in the guest: %s\n", dir,
			why);
	return EXIT_OURS;
}

/* The command never ran. */
static int say_failed(const struct exec *e, const struct command_result *r)
{
	switch (r->kind) {
	case FAIL_NOT_FOUND:
		return say_not_found(e);
	case FAIL_NOT_EXECUTABLE:
		fprintf(stderr, "postern exec: %s: can't be executed in the guest: %s\n",
			e->argv[0], r->text);
		return EXIT_NOT_EXECUTABLE;
	case FAIL_DIRECTORY:
		return say_no_directory(e, r->text);
	default:
		fprintf(stderr, "postern exec: %s: can't be started in the guest: %s\n", e->argv[0],
			r->text);
		return EXIT_OURS;
	}
}

static int code_of(const struct exec *e, const struct command_result *r)
{
	CLEAN(str) char *story = NULL;

	if (r->timed_out) {
		fprintf(stderr, "postern exec: %s was ended after %g s\n", e->argv[0],
			e->deadline_ms / 1000.0);
		return EXIT_TIMED_OUT;
	}
	switch (r->end) {
	case COMMAND_EXITED:
		return r->value;
	case COMMAND_SIGNALLED:
		return 128 + r->value;
	case COMMAND_FAILED:
		return say_failed(e, r);
	default:
		story = machine_story(e->machine);
		fprintf(stderr, "postern exec: the command did not end: %s\n", story);
		return EXIT_OURS;
	}
}

/* False: nobody answers in the guest, which may have killed its agent; err says it. */
static bool is_alive(struct exec *e, struct err *err)
{
	int64_t limit = (int64_t)ALIVE_MS * accel_time_factor(machine_accel(e->machine));
	CLEAN(str) char *story = NULL;

	if (session_ping(machine_session(e->machine), clock_in(limit), NULL, err))
		return true;
	if (err->code == ERR_INTERRUPTED)
		return false;
	if (done(e))
		return true;
	story = machine_story(e->machine);
	return err_set(err, ERR_PEER, "the guest answers no more: %s", story);
}

/* Waits until all is done. A reader of our output who is slow holds the guest up: that is no
 * lateness of the guest's. */
static bool wait_done(struct exec *e, struct err *err)
{
	int64_t deadline = CLOCK_NEVER;

	if (e->deadline_ms)
		deadline = clock_in((int64_t)e->deadline_ms + GRACE_MS + ANSWER_MS);
	for (;;) {
		int64_t look = clock_in(LOOK_MS);

		if (loop_until(&e->loop, done, e, look < deadline ? look : deadline, err))
			return true;
		if (err->code != ERR_TIME)
			return false;
		if (!outlet_is_empty(&e->out) || !outlet_is_empty(&e->err)) {
			if (deadline < clock_in(GRACE_MS + ANSWER_MS))
				deadline = clock_in(GRACE_MS + ANSWER_MS);
		} else if (clock_ms() >= deadline || !is_alive(e, err)) {
			return false;
		}
	}
}

static int run_command(struct exec *e, struct err *err)
{
	const struct command_spec spec = { .argv = e->argv,
		.env = e->env,
		.dir = e->dir,
		.deadline_ms = e->deadline_ms,
		.grace_ms = GRACE_MS,
		.output = on_output,
		.self = e };

	e->command = command_start(machine_session(e->machine), &spec, err);
	if (!e->command)
		return say(err->text);
	if (!wait_done(e, err)) {
		if (err->code == ERR_INTERRUPTED)
			return EXIT_OURS;
		if (err->code != ERR_TIME)
			return say(err->text);
		say("the guest did not end the command in time, so its machine was ended");
		return EXIT_TIMED_OUT;
	}
	if (e->out.error == EPIPE) {
		e->signal = SIGPIPE;
		return EXIT_OURS;
	}
	if (e->out.error) {
		fprintf(stderr, "postern exec: writing the output: %s\n", strerror(e->out.error));
		return EXIT_OURS;
	}
	return code_of(e, command_result(e->command));
}

static int boot_and_run(struct exec *e)
{
	struct err err;
	int code;

	if (!loop_init(&e->loop, true, &err))
		return say(err.text);
	outlet_init(&e->out, &e->loop, STDOUT_FILENO, &e->command, PART_STDOUT);
	outlet_init(&e->err, &e->loop, STDERR_FILENO, &e->command, PART_STDERR);
	err.code = ERR_NONE;
	if (boot(e, &err))
		code = run_command(e, &err);
	else
		code = err.code == ERR_INTERRUPTED ? EXIT_OURS : say(err.text);
	if (e->loop.interrupted)
		e->signal = e->loop.signal;
	return code;
}

static void release(struct exec *e)
{
	command_free(e->command);
	machine_free(e->machine);
	remove_scratch(e);
	image_release(&e->image);
	outlet_release(&e->out);
	outlet_release(&e->err);
	loop_release(&e->loop);
}

/* Ends as the signal would have ended us, so that a calling shell sees it. */
static void die_by(int signal_number)
{
	sigset_t set;

	signal(signal_number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, signal_number);
	raise(signal_number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static int run(int argc, char **argv)
{
	struct exec e = { .image_name = "mini", .loop.signals = -1 };
	int code;

	for (size_t i = 0; i < sizeof(default_env) / sizeof(*default_env); i++)
		set_env(&e, default_env[i]);
	code = parse(&e, argc, argv);
	if (code)
		return code;
	code = boot_and_run(&e);
	release(&e);
	if (e.signal)
		die_by(e.signal);
	return code;
}

const struct cli_command cmd_exec = {
	.name = "exec",
	.args = "[-i IMAGE] [-t SECONDS] [-w DIR] [-e NAME=VALUE]… -- COMMAND [ARG…]",
	.does = "Run one command as root in a new virtual machine that is gone afterwards",
	.details =
		"  -i IMAGE       the image to boot: mini (busybox, the default) or\n"
		"                 server (Debian with systemd and nginx)\n"
		"  -t SECONDS     end the command after this: SIGTERM, 5 s later SIGKILL\n"
		"  -w DIR         run it in this directory of the guest, an absolute path (/)\n"
		"  -e NAME=VALUE  add to its environment\n\n"
		"The machine has no network. The arguments reach the command exactly as given, "
		"with no\n"
		"shell between. Its standard input is empty; its output is passed on as it comes, "
		"and\n"
		"on a terminal control characters other than tab and newline are shown as '?'.\n\n"
		"Exit code: the command's own; 128+N when signal N ended it; 124 after -t; 125 "
		"when\n"
		"postern failed or was used wrongly; 126 when the command can't be executed; 127 "
		"when\n"
		"there is none of that name in the guest.\n\n"
		"Example: postern exec -t 30 -- sh -c 'uname -a; df -h'\n",
	.run = run,
};
