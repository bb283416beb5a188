/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper's own process. */
#include "keeper.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/xalloc.h"
#include "control.h"
#include "kept.h"
#include "snapshots.h"

/* What can be asked for beside status and down. */
struct task {
	const char *word;
	/* name: behind the word, or NULL. Adds to done what there is to tell. */
	bool (*act)(struct kept *k, const char *name, struct json *done, struct err *err);
	enum { NO_NAME, PERHAPS, A_NAME } names; /* a snapshot, or the machine that forks it */
};

struct keeper {
	const struct keeper_spec *spec;
	struct place *place;
	struct loop loop;
	struct source told; /* `postern up`, while it waits */
	struct kept kept;
	struct control *control;
	bool down;		 /* asked for */
	const struct task *task; /* the same, NULL: none */
	char *line;		 /* of whoever asks for it, owned */
	const char *name;	 /* in that line, or NULL */
};

/* To `postern up`; nobody listens any more when it is gone. */
static void tell_up(struct keeper *k, const char *key, const char *text)
{
	CLEAN(json) struct json *j = json_object();
	CLEAN(str) char *line = NULL;
	CLEAN(str) char *out = NULL;

	if (k->told.fd < 0)
		return;
	json_set_str(j, key, text);
	line = json_line(j);
	out = xasprintf("%s\n", line);
	(void)!send(k->told.fd, out, strlen(out), MSG_NOSIGNAL);
}

/* To whoever waits for what is done. */
static void on_notice(void *self, const char *text)
{
	struct keeper *k = self;

	if (k->line)
		control_notice(k->control, k->line, text);
	else
		tell_up(k, "notice", text);
}

/* Ends every wait, also for a machine that starts. */
static void go_down(struct keeper *k)
{
	k->down = true;
	k->loop.interrupted = true;
}

/* `up` says nothing: it is gone. */
static void told_ready(void *self, short events)
{
	struct keeper *k = self;

	(void)events;
	loop_remove(&k->loop, &k->told);
	go_down(k);
}

static short told_wants(const void *self)
{
	(void)self;
	return POLLIN;
}

/* What holds as long as the keeper lives. Returns owned. */
static struct json *facts(const struct keeper *k)
{
	struct json *j = json_object();

	json_set_str(j, "name", k->place->name);
	json_set_str(j, "image", k->spec->image);
	json_set_int(j, "memory_mib", kept_memory(&k->kept));
	json_set_int(j, "keeper", getpid());
	return j;
}

static struct json *describe(const struct keeper *k)
{
	struct json *j = facts(k);

	json_set_str(j, "state", "starting");
	if (k->kept.machine)
		kept_describe(&k->kept, j);
	return j;
}

static const struct task tasks[] = {
	{ "reset", kept_reset, NO_NAME },
	{ "snapshot", kept_snapshot, PERHAPS },
	{ "restore", kept_restore, PERHAPS },
	{ "forget", kept_forget, A_NAME },
	{ "fork", kept_fork, A_NAME },
};

/* The rest of a line behind its word and a blank, which may be missing: "". NULL: another word. */
static const char *rest_of(const char *line, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(line, word, len) != 0 || (line[len] && line[len] != ' '))
		return NULL;
	return line[len] ? line + len + 1 : "";
}

static struct json *refuse(const char *text)
{
	struct json *j = json_object();

	json_set_str(j, "error", text);
	return j;
}

/* Takes note of it; one thing at a time. */
static struct json *take(
	struct keeper *k, const struct task *task, const char *name, const char *line)
{
	struct err err;

	if (!k->kept.machine) {
		err_set(&err, ERR_DENIED, "the machine %s is starting: wait until it is up",
			k->place->name);
		return refuse(err.text);
	}
	if (*name && task->names == NO_NAME)
		return refuse("a reset has no name");
	if ((*name || task->names == A_NAME) && !snapshots_check_name(name, &err))
		return refuse(err.text);
	if (k->task && strcmp(k->line, line) != 0) {
		err_set(&err, ERR_DENIED,
			"the machine %s is busy with a %s: try again when that is done",
			k->place->name, k->task->word);
		return refuse(err.text);
	}
	/* Who asks for what is under way is answered with it. */
	if (k->task)
		return NULL;
	k->line = xstrdup(line);
	k->name = *name ? k->line + (name - line) : NULL;
	k->task = task;
	return NULL;
}

static struct json *answer(void *self, const char *line)
{
	struct keeper *k = self;

	if (!strcmp(line, "status"))
		return describe(k);
	if (!strcmp(line, "down")) {
		go_down(k);
		return NULL;
	}
	for (size_t i = 0; i < sizeof(tasks) / sizeof(*tasks); i++) {
		const char *name = rest_of(line, tasks[i].word);

		if (name)
			return take(k, &tasks[i], name, line);
	}
	return refuse(
		"a keeper is asked for status, reset, snapshot, restore, forget, fork or down");
}

/* Makes its sockets, so that it can be asked while the machine starts. */
static bool open_doors(struct keeper *k, struct err *err)
{
	int listener;

	loop_add(&k->loop, &k->told);
	listener = place_listen(k->place, "control", err);
	if (listener < 0)
		return false;
	k->control = control_new(&k->loop, listener, answer, k);
	listener = place_listen(k->place, "socket", err);
	if (listener < 0)
		return false;
	k->kept.board = switchboard_new(&k->loop, listener);
	return true;
}

static void set_now(struct json *j, const char *key)
{
	char text[CLOCK_STAMP];

	clock_stamp(text);
	json_set_str(j, key, text);
}

static bool write_machine(struct keeper *k, struct err *err)
{
	CLEAN(json) struct json *j = facts(k);

	json_set_str(j, "postern", VERSION);
	set_now(j, "started");
	return place_write_json(k->place, "machine.json", j, err);
}

static void write_ended(struct keeper *k, const char *why)
{
	CLEAN(json) struct json *j = json_object();
	struct err err;

	json_set_str(j, "why", why);
	set_now(j, "ended");
	if (!place_write_json(k->place, "ended.json", j, &err))
		fprintf(stderr, "postern: %s\n", err.text);
}

static bool has_work(const void *arg)
{
	struct keeper *k = *(struct keeper *const *)arg;

	return k->task || watch_over(&k->kept.watch) || kept_is_frozen(&k->kept);
}

/* Does what was asked for. Returns why there is no machine to keep any more, owned; NULL: there is
 * one. */
static char *work(struct keeper *k)
{
	CLEAN(json) struct json *done = json_object();
	CLEAN(str) char *line = k->line;
	struct err err;
	bool ok = k->task->act(&k->kept, k->name, done, &err);

	k->line = NULL;
	k->name = NULL;
	k->task = NULL;
	if (k->loop.interrupted)
		return NULL;
	if (!k->kept.machine)
		return xasprintf("it could not be started anew: %s", err.text);
	if (k->kept.stands_still)
		return watch_over(&k->kept.watch) ? watch_story(&k->kept.watch) : xstrdup(err.text);
	if (ok)
		json_set_bool(done, "done", true);
	else
		json_set_str(done, "error", err.text);
	control_settle(k->control, line, done);
	return NULL;
}

/* Until it is told to go down, or there is no machine to keep. Returns how that ended, owned. */
static char *keep(struct keeper *k)
{
	struct err err;

	for (;;) {
		char *why;

		if (!loop_until(&k->loop, has_work, &k, CLOCK_NEVER, &err))
			return xstrdup(err.text);
		if (!k->task && watch_over(&k->kept.watch))
			return watch_story(&k->kept.watch);
		if (!k->task) {
			kept_thaw(&k->kept);
			continue;
		}
		why = work(k);
		if (why)
			return why;
	}
}

/* Callers are told last: then all there is to read about it is there. */
static void leave(struct keeper *k, const char *why)
{
	CLEAN(json) struct json *said = json_object();
	struct err err;

	if (!k->loop.interrupted) {
		write_ended(k, why);
		kept_end(&k->kept);
		json_set_str(said, "error", why);
		place_release(k->place);
		control_settle(k->control, NULL, said);
		return;
	}
	kept_end(&k->kept);
	if (!place_remove(k->place, &err))
		json_set_str(said, "error", err.text);
	json_set_bool(said, "done", true);
	control_settle(k->control, "down", said);
}

_Noreturn void keeper_run(const struct keeper_spec *spec, struct place *place, int told)
{
	struct keeper k = { .spec = spec, .place = place };
	struct err err;
	bool ok;

	k.kept = (struct kept){
		.spec = spec, .place = place, .loop = &k.loop, .notice = on_notice, .self = &k
	};
	k.told =
		(struct source){ .fd = told, .wants = told_wants, .ready = told_ready, .self = &k };
	ok = loop_init(&k.loop, true, &err) && open_doors(&k, &err) && kept_begin(&k.kept, &err) &&
	     write_machine(&k, &err);
	if (ok) {
		CLEAN(str) char *why = NULL;

		tell_up(&k, "up", place->name);
		loop_remove(&k.loop, &k.told);
		fd_close(&k.told.fd);
		why = keep(&k);
		leave(&k, why);
	} else {
		CLEAN(str)
		char *why = xstrdup(k.down ? "postern down ended it while it started" : err.text);

		kept_end(&k.kept);
		if (!place_remove(place, &err))
			fprintf(stderr, "postern: %s\n", err.text);
		tell_up(&k, "error", why);
	}
	switchboard_free(k.kept.board);
	control_free(k.control);
	_exit(!ok);
}
