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
#include "machine/start.h"
#include "switchboard.h"
#include "watch.h"

struct keeper {
	const struct keeper_spec *spec;
	struct place *place;
	struct loop loop;
	struct source told; /* `postern up`, while it waits */
	struct image image;
	char *overlay, *console; /* paths, owned */
	struct machine *machine; /* NULL while it starts */
	struct watch watch;
	struct switchboard *board;
	struct control *control;
	int64_t since;	    /* when it was up */
	bool away;	    /* the guest's end of the channel was closed: no caller reaches it */
	unsigned greetings; /* of the guest that was there then */
	bool down, reset;   /* asked for */
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

static void on_notice(void *self, const char *text)
{
	tell_up(self, "notice", text);
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
	int memory = k->spec->memory_mib ? k->spec->memory_mib : k->image.memory_mib;

	json_set_str(j, "name", k->place->name);
	json_set_str(j, "image", k->spec->image);
	json_set_int(j, "memory_mib", memory);
	json_set_int(j, "keeper", getpid());
	return j;
}

static struct json *describe(struct keeper *k)
{
	struct json *j = facts(k);
	const char *fault = NULL;

	json_set_str(j, "state", "starting");
	if (!k->machine)
		return j;
	fault = machine_host_fault(k->machine);
	if (session_is_open(machine_session(k->machine)) && !k->away) {
		json_set_str(j, "state", "up");
		json_set_str(j, "why", fault);
	} else {
		CLEAN(str) char *story = machine_story(k->machine);

		json_set_str(j, "state", "restarting");
		json_set_str(j, "why", story);
	}
	json_set_int(j, "uptime_s", (clock_ms() - k->since) / 1000);
	json_set_int(j, "operations", switchboard_operations(k->board));
	json_set_int(j, "callers", switchboard_callers(k->board));
	json_set_int(j, "boot_ms", machine_boot_ms(k->machine));
	json_set_int(j, "time_factor", accel_time_factor(machine_accel(k->machine)));
	return j;
}

static struct json *refuse(const char *text)
{
	struct json *j = json_object();

	json_set_str(j, "error", text);
	return j;
}

static struct json *answer(void *self, const char *word)
{
	struct keeper *k = self;

	if (!strcmp(word, "status"))
		return describe(k);
	if (!strcmp(word, "down")) {
		go_down(k);
		return NULL;
	}
	if (strcmp(word, "reset") != 0)
		return refuse("a keeper is asked for status, reset or down");
	if (!k->machine)
		return refuse("the machine is starting: wait until it is up");
	k->reset = true;
	return NULL;
}

/* Makes its sockets, so that it can be asked while the machine starts. */
static bool open_doors(struct keeper *k, struct err *err)
{
	int listener;

	k->overlay = xasprintf("%s/disk.qcow2", k->place->path);
	k->console = xasprintf("%s/console.log", k->place->path);
	loop_add(&k->loop, &k->told);
	listener = place_listen(k->place, "control", err);
	if (listener < 0)
		return false;
	k->control = control_new(&k->loop, listener, answer, k);
	listener = place_listen(k->place, "socket", err);
	if (listener < 0)
		return false;
	k->board = switchboard_new(&k->loop, listener);
	return true;
}

/* A new machine of the image as it is now, and callers for it. */
static bool begin(struct keeper *k, struct err *err)
{
	const struct start_spec spec = { .image = &k->image,
		.overlay = k->overlay,
		.console_log = k->console,
		.memory_mib = k->spec->memory_mib,
		.notice = on_notice,
		.self = k };
	CLEAN(str) char *cold = NULL;
	CLEAN(str) char *text = NULL;

	image_release(&k->image);
	if (!image_open(k->spec->image, &k->image, err))
		return false;
	(void)unlink(k->overlay);
	k->machine = machine_begin(&k->loop, &spec, &cold, err);
	if (!k->machine)
		return false;
	if (cold) {
		text = xasprintf("the machine was booted, not started from a template: %s", cold);
		tell_up(k, "notice", text);
	}
	k->since = clock_ms();
	k->away = false;
	watch_begin(&k->watch, &k->loop, k->machine);
	switchboard_serve(k->board, machine_session(k->machine));
	return true;
}

static void end_machine(struct keeper *k)
{
	if (k->board)
		switchboard_serve(k->board, NULL);
	watch_end(&k->watch);
	machine_free(k->machine);
	k->machine = NULL;
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

/* What is said to a closed port is read by nobody, and lost when it opens again. Who is behind it
 * then has to greet first: until he does, the session stands as with the one before. */
static void look_at_guest(struct keeper *k)
{
	struct session *s = machine_session(k->machine);

	if (machine_port_closed(k->machine)) {
		k->greetings = session_greetings(s);
		if (!k->away)
			switchboard_serve(k->board, NULL);
		k->away = true;
	} else if (k->away && session_is_open(s) && session_greetings(s) != k->greetings) {
		k->away = false;
		switchboard_serve(k->board, s);
	}
}

static bool has_work(const void *arg)
{
	struct keeper *k = *(struct keeper *const *)arg;

	look_at_guest(k);
	return k->reset || watch_over(&k->watch);
}

static bool reset(struct keeper *k, struct err *err)
{
	CLEAN(json) struct json *done = json_object();

	k->reset = false;
	end_machine(k);
	if (!begin(k, err))
		return false;
	json_set_bool(done, "done", true);
	control_settle(k->control, "reset", done);
	return true;
}

/* Until it is told to go down, or there is no machine to keep. Returns how that ended, owned. */
static char *keep(struct keeper *k)
{
	struct err err;

	for (;;) {
		if (!loop_until(&k->loop, has_work, &k, CLOCK_NEVER, &err))
			return xstrdup(err.text);
		if (!k->reset)
			return watch_story(&k->watch);
		if (!reset(k, &err))
			return xasprintf("it could not be started anew: %s", err.text);
	}
}

/* Callers are told last: then all there is to read about it is there. */
static void leave(struct keeper *k, const char *why)
{
	CLEAN(json) struct json *said = json_object();
	struct err err;

	if (!k->loop.interrupted) {
		write_ended(k, why);
		end_machine(k);
		json_set_str(said, "error", why);
		control_settle(k->control, "reset", said);
		place_release(k->place);
		return;
	}
	end_machine(k);
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

	k.told =
		(struct source){ .fd = told, .wants = told_wants, .ready = told_ready, .self = &k };
	ok = loop_init(&k.loop, true, &err) && open_doors(&k, &err) && begin(&k, &err) &&
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

		end_machine(&k);
		if (!place_remove(place, &err))
			fprintf(stderr, "postern: %s\n", err.text);
		tell_up(&k, "error", why);
	}
	switchboard_free(k.board);
	control_free(k.control);
	_exit(!ok);
}
