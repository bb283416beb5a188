/* SPDX-License-Identifier: Apache-2.0 */
/* A named machine, as those who use it see it. */
#include "visit.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "control.h"
#include "place.h"
#include "snapshots.h"
#include "switchboard.h"

#define STATUS_MS 10000 /* emulation or not: a keeper that lives answers at once */
#define FULL_MS	  5000	/* for one of all callers to go */
#define GONE_MS	  2000	/* for a keeper that is ended to be gone */
#define LOOK_MS	  20

/* What else can be done where there are some. Returns owned. */
static char *about_snapshots(const char *name)
{
	CLEAN(json) struct json *list = snapshots_list(name);

	if (!json_len(list))
		return xstrdup("");
	return xasprintf("postern fork %s NEW SNAPSHOT begins another from its snapshots, with "
			 "which ",
		name);
}

/* Why a machine without a keeper can't be used. */
static bool fail_without_keeper(const char *name, enum place_state state, struct err *err)
{
	CLEAN(json) struct json *ended = NULL;
	CLEAN(str) char *saved = NULL;

	if (state == PLACE_NONE)
		return err_set(err, ERR_INPUT,
			"there is no machine %s: postern up %s makes one, postern ls lists those "
			"that are there",
			name, name);
	saved = about_snapshots(name);
	if (state == PLACE_LEFT)
		return err_set(err, ERR_PEER,
			"the keeper of the machine %s was killed, and the machine with it: "
			"%spostern down %s clears it away",
			name, saved, name);
	ended = place_json(name, "ended.json");
	return err_set(err, ERR_PEER,
		"the machine %s has ended: %s; %spostern down %s clears it away", name,
		json_get_str(ended, "why"), saved, name);
}

/* One that is killed closes its connections a moment before it lets the lock go. */
static enum place_state look_again(const char *name)
{
	const int64_t end = clock_in(GONE_MS);

	while (place_look(name) == PLACE_KEPT && clock_ms() < end)
		(void)poll(NULL, 0, LOOK_MS);
	return place_look(name);
}

struct json *visit_ask(const char *name, const char *line, int64_t milliseconds,
	template_notice *notice, void *self, struct err *err)
{
	struct json *answer = NULL;
	enum place_state state;

	if (!place_check_name(name, err))
		return NULL;
	state = place_look(name);
	if (state == PLACE_KEPT)
		answer = control_ask(name, line, milliseconds, notice, self, err);
	/* It may have ended between the two. */
	if (!answer && state == PLACE_KEPT)
		state = err->code == ERR_TIME || err->code == ERR_DENIED ? place_look(name)
									 : look_again(name);
	if (state != PLACE_KEPT)
		fail_without_keeper(name, state, err);
	return answer;
}

struct json *visit_status(const char *name, struct err *err)
{
	return visit_ask(name, "status", STATUS_MS, NULL, NULL, err);
}

static bool is_full(const struct json *status)
{
	return json_get_int(status, "callers", 0) >= CALLERS_MAX;
}

static bool connect_to(
	struct visit *v, struct loop *loop, const struct json *status, struct err *err)
{
	int64_t limit = is_full(status) ? FULL_MS : json_get_int(status, "boot_ms", 0);
	int fd = place_connect(v->name, "socket", err);
	CLEAN(str) char *story = NULL;

	if (fd < 0)
		return false;
	v->session = session_new(loop, fd);
	if (session_wait_open(v->session, clock_in(limit), err))
		return true;
	if (err->code == ERR_INTERRUPTED)
		return false;
	story = visit_story(v);
	return err_set(err, err->code, "%s", story);
}

bool visit_open(struct visit *v, struct loop *loop, const char *name, struct err *err)
{
	CLEAN(json) struct json *status = NULL;
	const char *image;

	*v = (struct visit){ .name = xstrdup(name) };
	status = visit_status(name, err);
	if (!status)
		return false;
	if (!strcmp(json_get_str(status, "state"), "starting"))
		return err_set(err, ERR_PEER,
			"the machine %s is starting: wait until postern ls shows that it is up",
			name);
	image = json_get_str(status, "image");
	v->image = xstrdup(image ? image : "?");
	v->time_factor = (int)json_get_int(status, "time_factor", 1);
	return connect_to(v, loop, status, err);
}

void visit_close(struct visit *v)
{
	session_free(v->session);
	free(v->name);
	free(v->image);
	*v = (struct visit){ 0 };
}

char *visit_story(const struct visit *v)
{
	struct err err;
	CLEAN(json) struct json *status = visit_status(v->name, &err);
	const char *state = json_get_str(status, "state"), *why = json_get_str(status, "why");

	if (!status)
		return xstrdup(err.text);
	if (session_broken(v->session))
		return xasprintf("its keeper closed the connection to the machine %s", v->name);
	if (!session_is_open(v->session) && is_full(status))
		return xasprintf("the machine %s has %d callers, as many as it takes: wait until "
				 "one is gone",
			v->name, CALLERS_MAX);
	if (!strcmp(state, "up") && !why)
		return xasprintf("the machine %s is up, but does not answer", v->name);
	return xasprintf(
		"the machine %s is %s%s%s", v->name, state, why ? ": " : "", why ? why : "");
}

struct json *visit_describe(const char *name)
{
	enum place_state state = place_look(name);
	struct json *j, *ended;
	struct err err;

	if (state == PLACE_NONE || (state == PLACE_KEPT && *name == '.'))
		return NULL;
	if (state == PLACE_KEPT) {
		j = control_ask(name, "status", STATUS_MS, NULL, NULL, &err);
		if (j)
			return j;
		state = place_look(name);
	}
	if (state == PLACE_NONE)
		return NULL;
	j = place_json(name, "machine.json");
	j = j ? j : json_object();
	json_set_str(j, "name", name);
	json_set_str(j, "state",
		state == PLACE_KEPT   ? "busy"
		: state == PLACE_LEFT ? "left behind"
				      : "ended");
	/* Its number may be another process's by now. */
	if (state != PLACE_KEPT)
		json_set(j, "keeper", json_null());
	ended = place_json(name, "ended.json");
	if (state == PLACE_ENDED)
		json_set_str(j, "why", json_get_str(ended, "why"));
	else if (state == PLACE_KEPT)
		json_set_str(j, "why", err.text);
	json_free(ended);
	return j;
}
