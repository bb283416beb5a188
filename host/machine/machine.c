/* SPDX-License-Identifier: Apache-2.0 */
/* One running VM. */
#include "machine.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/process.h"
#include "base/text.h"
#include "base/xalloc.h"
#include "console.h"
#include "qemu.h"
#include "qmp.h"
#include "seal.h"

#define START_MS   20000 /* QEMU's own start, on a busy host */
#define ANSWER_MS  30000 /* of the control socket */
#define ENDING_MS  5000	 /* from the end of the control socket to the end of QEMU */
#define CLOSING_MS 1000	 /* from the end of the channel to the end of QEMU, if it ends */
#define RETRY_MS   200	 /* between two questions whether the system is up */
#define ASK_MS	   600000
#define WORD_MAX   64

struct machine {
	struct loop *loop;
	const struct image *image;
	enum accel accel;

	struct process *qemu;
	struct source ending; /* the end of QEMU */
	struct qmp *qmp;
	struct console *console;
	struct console *words; /* of QEMU: stdout and stderr */
	struct session *session;

	unsigned resets, splits;
	bool port_closed;	 /* by the guest, after it was open */
	bool ended_from_outside; /* a signal to QEMU, not the guest */
	bool disk_full;		 /* a write of the guest found no room on the host, so it stopped */
	char system[WORD_MAX];	 /* what the ready command said last */
};

static void on_event(void *self, const char *name, const struct json *data)
{
	struct machine *m = self;
	bool by_guest = json_get_bool(data, "guest", false);
	const char *port = json_get_str(data, "id");

	if (!strcmp(name, "RESET") && by_guest) {
		m->resets++;
		console_forget_panic(m->console);
	} else if (!strcmp(name, "SHUTDOWN")) {
		m->ended_from_outside = !by_guest;
	} else if (!strcmp(name, "VSERPORT_CHANGE") && port && !strcmp(port, QEMU_CHANNEL_PORT)) {
		m->port_closed = !json_get_bool(data, "open", false);
	} else if (!strcmp(name, "BLOCK_IO_ERROR") && json_get_bool(data, "nospace", false)) {
		m->disk_full = true;
	}
}

static short ending_wants(const void *self)
{
	const struct machine *m = self;

	return process_ended(m->qemu, NULL) ? 0 : POLLIN;
}

static void ending_ready(void *self, short events)
{
	struct machine *m = self;

	(void)events;
	process_ended(m->qemu, NULL);
}

/* The ends of the descriptors that QEMU inherits; open only until it runs. */
struct inherited {
	int control, channel, console, words;
};

static void inherited_clean(struct inherited *fds)
{
	fd_close(&fds->control);
	fd_close(&fds->channel);
	fd_close(&fds->console);
	fd_close(&fds->words);
}

static bool make_ends(struct machine *m, const char *log, struct inherited *theirs, struct err *err)
{
	int ours;

	if (!fd_pair(&ours, &theirs->console, err))
		return false;
	m->console = console_new(m->loop, ours, log, err);
	if (!m->console || !fd_pair(&ours, &theirs->words, err))
		return false;
	m->words = console_new(m->loop, ours, NULL, err);
	if (!fd_pair(&ours, &theirs->control, err))
		return false;
	m->qmp = qmp_new(m->loop, ours, on_event, m);
	if (!fd_pair(&ours, &theirs->channel, err))
		return false;
	m->session = session_new(m->loop, ours);
	return true;
}

static bool start_qemu(struct machine *m, const struct machine_spec *spec,
	const struct inherited *theirs, struct err *err)
{
	const struct qemu_fds fds = { theirs->control, theirs->channel, theirs->console };
	const int keep[] = { theirs->control, theirs->channel, theirs->console, -1 };
	char **argv = qemu_command(spec, m->accel, &fds);

	m->qemu = process_start(&(struct process_spec){ .argv = (const char *const *)argv,
					.package = QEMU_PACKAGE,
					.stdio = { -1, theirs->words, theirs->words },
					.keep = keep },
		err);
	qemu_command_free(argv);
	if (!m->qemu)
		return false;
	m->ending = (struct source){
		.fd = process_fd(m->qemu), .wants = ending_wants, .ready = ending_ready, .self = m
	};
	loop_add(m->loop, &m->ending);
	return true;
}

struct machine *machine_start_on(
	struct loop *loop, const struct machine_spec *spec, enum accel accel, struct err *err)
{
	CLEAN(inherited) struct inherited theirs = { -1, -1, -1, -1 };
	struct machine *m = xcalloc(1, sizeof(*m));

	*m = (struct machine){ .loop = loop, .image = spec->image, .accel = accel };
	if (make_ends(m, spec->console_log, &theirs, err) && start_qemu(m, spec, &theirs, err))
		return m;
	machine_free(m);
	return NULL;
}

struct machine *machine_start(struct loop *loop, const struct machine_spec *spec, struct err *err)
{
	enum accel accel;
	const char *why;

	if (!accel_choose(loop, &accel, &why, err))
		return NULL;
	return machine_start_on(loop, spec, accel, err);
}

void machine_free(struct machine *m)
{
	if (!m)
		return;
	loop_remove(m->loop, &m->ending);
	process_free(m->qemu);
	session_free(m->session);
	qmp_free(m->qmp);
	console_free(m->words);
	console_free(m->console);
	free(m);
}

struct session *machine_session(struct machine *m)
{
	return m->session;
}

enum accel machine_accel(const struct machine *m)
{
	return m->accel;
}

unsigned machine_resets(const struct machine *m)
{
	return m->resets;
}

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

const char *machine_host_fault(const struct machine *m)
{
	int status = 0;
	bool ended = qemu_ended(m) && process_ended(m->qemu, &status);

	if (m->disk_full)
		return "the host's disk is full: make room and run it again";
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

/* Turns the failure of a wait into the machine's story, unless it was the user's wish. */
static bool fail_with_story(const struct machine *m, const char *what, struct err *err)
{
	CLEAN(str) char *story = NULL;

	if (err->code == ERR_INTERRUPTED)
		return false;
	story = machine_story(m);
	return err_set(err, err->code, "%s: %s", what, story);
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
		return fail_with_story(m, "the guest did not come up in time", err);
	if (session_greetings(m->session))
		return true;
	err->code = ERR_PEER;
	return fail_with_story(m, "the guest did not come up", err);
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

static bool never(const void *arg)
{
	(void)arg;
	return false;
}

enum readiness { READY, NOT_YET, READY_FAILED };

static enum readiness ask_ready(struct machine *m, int64_t deadline, struct err *err)
{
	static const char *const env[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
		NULL
	};
	struct answer answer = { 0 };
	const struct command_spec spec = { .argv = (const char *const *)m->image->ready,
		.env = env,
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
		int64_t again = clock_in(RETRY_MS);

		ready = ask_ready(m, deadline, err);
		if (ready == NOT_YET && !loop_until(m->loop, never, NULL, again, err) &&
			err->code != ERR_TIME)
			return false;
	}
	if (ready == READY || !m->image->ready)
		return true;
	if (ready == NOT_YET)
		return fail_with_story(m,
			"the system in the guest did not come up in time; where the host is busy, "
			"try again",
			err);
	return fail_with_story(m, "the system in the guest did not come up", err);
}

bool machine_is_sealed(struct machine *m, bool *ret_sealed, struct err *err)
{
	return seal_check(m->qmp, clock_in(ANSWER_MS), ret_sealed, err) ||
	       fail_with_story(m, "QEMU does not say which devices it has", err);
}

bool machine_stop(struct machine *m, struct err *err)
{
	return qmp_call(m->qmp, "stop", NULL, clock_in(ANSWER_MS), NULL, err);
}

bool machine_cont(struct machine *m, struct err *err)
{
	return qmp_call(m->qmp, "cont", NULL, clock_in(ANSWER_MS), NULL, err);
}

bool machine_split(struct machine *m, const char *new_overlay, struct err *err)
{
	struct json *arguments = json_object();
	CLEAN(str) char *from = NULL;
	CLEAN(str) char *file = qemu_path(new_overlay);
	CLEAN(str) char *to = xasprintf("layer%u", m->splits + 1);

	from = m->splits ? xasprintf("layer%u", m->splits) : xstrdup(QEMU_DISK_NODE);
	json_set_str(arguments, "node-name", from);
	json_set_str(arguments, "snapshot-file", file);
	json_set_str(arguments, "snapshot-node-name", to);
	json_set_str(arguments, "format", "qcow2");
	json_set_str(arguments, "mode", "absolute-paths");
	if (!qmp_call(m->qmp, "blockdev-snapshot-sync", arguments, clock_in(ANSWER_MS), NULL, err))
		return err_in(err, "splitting the disk");
	m->splits++;
	return true;
}

static bool ended(const void *arg)
{
	const struct machine *m = arg;

	return process_ended(m->qemu, NULL);
}

bool machine_powerdown(struct machine *m, int64_t deadline, struct err *err)
{
	if (ended(m))
		return true;
	if (!qmp_call(m->qmp, "system_powerdown", NULL, clock_in(ANSWER_MS), NULL, err))
		return ended(m);
	return loop_until(m->loop, ended, m, deadline, err) ||
	       err_in(err, "waiting for the guest to power off");
}
