/* SPDX-License-Identifier: Apache-2.0 */
/* How a command in a guest ended: a sentence for people, an exit code for programs. */
#include "ending.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clean.h"

int ending_say(const char *who, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "postern %s: ", who);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return EXIT_OURS;
}

static int say_not_found(const struct foreground_spec *spec, const struct guest *guest)
{
	const char *name = spec->argv[0];
	bool is_line = !spec->argv[1] && name[strcspn(name, " \t\n")];

	ending_say(spec->who, "%s: not found in the guest (image %s)%s", name, guest_image(guest),
		is_line ? "; for a shell line use: sh -c '…'" : "");
	return EXIT_NOT_FOUND;
}

static int say_no_directory(const struct foreground_spec *spec, const char *why)
{
	const char *dir = spec->dir ? spec->dir : "/";

	if (!strcmp(why, strerror(ENOENT)))
		return ending_say(spec->who, "-w %s: no such directory in the guest", dir);
	return ending_say(spec->who, "-w %s: can't be entered in the guest: %s", dir, why);
}

/* The command never ran. */
static int say_failed(const struct foreground_spec *spec, const struct guest *guest,
	const struct command_result *r)
{
	switch (r->kind) {
	case FAIL_NOT_FOUND:
		return say_not_found(spec, guest);
	case FAIL_NOT_EXECUTABLE:
		ending_say(spec->who, "%s: can't be executed in the guest: %s", spec->argv[0],
			r->text);
		return EXIT_NOT_EXECUTABLE;
	case FAIL_DIRECTORY:
		return say_no_directory(spec, r->text);
	case FAIL_USER:
		return ending_say(spec->who, "-u %s: %s in the guest (image %s)",
			spec->user ? spec->user : "root", r->text, guest_image(guest));
	default:
		return ending_say(
			spec->who, "%s: can't be started in the guest: %s", spec->argv[0], r->text);
	}
}

int ending_of(const struct foreground_spec *spec, const struct guest *guest,
	const struct command_result *r)
{
	CLEAN(str) char *story = NULL;

	if (r->timed_out) {
		ending_say(spec->who, "%s was ended after %g s", spec->argv[0],
			spec->deadline_ms / 1000.0);
		return EXIT_TIMED_OUT;
	}
	switch (r->end) {
	case COMMAND_EXITED:
		return r->value;
	case COMMAND_SIGNALLED:
		return 128 + r->value;
	case COMMAND_FAILED:
		return say_failed(spec, guest, r);
	default:
		story = guest_story(guest, r);
		return ending_say(spec->who, "the command did not end: %s", story);
	}
}

void ending_die_by(int signal_number)
{
	sigset_t set;

	signal(signal_number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, signal_number);
	raise(signal_number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}
