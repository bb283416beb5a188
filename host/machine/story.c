/* SPDX-License-Identifier: Apache-2.0 */
/* What became of a machine, and why: from QEMU, the console and the channel. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "internal.h"

#include "base/buf.h"
#include "base/xalloc.h"

#define ENDING_MS  5000 /* from the end of the control socket to the end of QEMU */
#define CLOSING_MS 1000 /* from the end of the channel to the end of QEMU, if it ends */

/*
 * When QEMU's descriptors are closed its end is near, and what it said is still to be read. An
 * exiting process closes them one by one, so the channel's end may be the first we see; it may
 * also be broken for a reason of its own.
 */
static bool qemu_ended(const struct machine *m)
{
	bool ended = process_ended(m->qemu, NULL) ||
		     (session_broken(m->session) && process_wait(m->qemu, CLOSING_MS)) ||
		     (qmp_closed(m->qmp) && process_wait(m->qemu, ENDING_MS));

	if (ended) {
		qmp_drain(m->qmp);
		console_drain(m->words);
		console_drain(m->console);
	}
	return ended;
}

enum machine_state machine_state(const struct machine *m)
{
	int status;

	if (qemu_ended(m)) {
		process_ended(m->qemu, &status);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !m->ended_from_outside)
			return MACHINE_OFF;
		return MACHINE_DIED;
	}
	return console_panicked(m->console) ? MACHINE_PANICKED : MACHINE_RUNS;
}

/* A guest makes QEMU exit, abort or crash; these signals come from the host, out of memory or not.
 */
static bool killed_from_outside(int status)
{
	int by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	return by == SIGKILL || by == SIGTERM || by == SIGINT || by == SIGHUP;
}

/* The file of its memory could not be read or grown, or a file became larger than may be. */
static bool killed_for_a_file(int status)
{
	int by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	return by == SIGBUS || by == SIGXFSZ;
}

const char *machine_host_fault(const struct machine *m)
{
	int status = 0;
	bool ended = qemu_ended(m) && process_ended(m->qemu, &status);

	if (m->disk_full)
		return "the host's disk is full: make room and run it again";
	if (m->disk_broken)
		return "the host's disk failed to be read or written: see the host's log and run "
		       "it "
		       "again";
	if (ended && killed_for_a_file(status))
		return "QEMU could not read or write a file of its own: see that the host's disk "
		       "has "
		       "room and is sound, and `ulimit -f`, and run it again";
	if (ended && (m->ended_from_outside || killed_from_outside(status)))
		return "QEMU was ended by somebody on the host, or for want of memory: see the "
		       "host's log and run it again";
	return NULL;
}

/* Adds the last words of the console, if there are any. */
static void add_console(struct buf *story, const struct machine *m)
{
	CLEAN(str) char *last = console_last(m->console, 3);

	if (*last)
		buf_printf(story, "; the console ends with: %s", last);
}

static void tell_death(struct buf *story, const struct machine *m)
{
	CLEAN(str) char *words = console_last(m->words, 2);
	CLEAN(str) char *epitaph = NULL;
	int status;

	process_ended(m->qemu, &status);
	epitaph = process_epitaph(status);
	buf_printf(story, "QEMU %s", epitaph);
	if (*words)
		buf_printf(story, " and said: %s", words);
	add_console(story, m);
}

static void tell_panic(struct buf *story, const struct machine *m)
{
	CLEAN(str) char *panic = console_panic(m->console);

	buf_printf(story, "the guest's kernel stopped: %s", panic);
}

static void tell_life(struct buf *story, const struct machine *m)
{
	const char *broken = session_broken(m->session);

	buf_str(story, "the machine runs");
	if (m->system[0])
		buf_printf(story, ", its system is %s", m->system);
	if (m->disk_full)
		buf_str(story, ", but stands still because the host's disk is full");
	else if (m->disk_broken)
		buf_str(story, ", but stands still because the host's disk failed");
	else if (m->port_closed)
		buf_str(story, ", but the guest closed the channel");
	else if (broken)
		buf_printf(story, ", but its channel is of no use: %s", broken);
	else if (!session_greetings(m->session))
		buf_str(story, ", but its agent has not answered yet");
	if (m->port_closed || broken || !session_is_open(m->session))
		add_console(story, m);
}

char *machine_story(const struct machine *m)
{
	CLEAN(buf) struct buf story = { 0 };

	switch (machine_state(m)) {
	case MACHINE_OFF:
		buf_str(&story, "the guest powered off");
		break;
	case MACHINE_PANICKED:
		tell_panic(&story, m);
		break;
	case MACHINE_DIED:
		tell_death(&story, m);
		break;
	case MACHINE_RUNS:
		tell_life(&story, m);
		break;
	}
	return buf_take(&story);
}

bool machine_fail(const struct machine *m, const char *what, struct err *err)
{
	CLEAN(str) char *story = NULL;

	if (err->code == ERR_INTERRUPTED)
		return false;
	story = machine_story(m);
	return err_set(err, err->code, "%s: %s", what, story);
}
