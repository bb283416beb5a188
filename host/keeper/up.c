/* SPDX-License-Identifier: Apache-2.0 */
/* The start of a keeper, as `postern up` sees it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "control.h"
#include "keeper.h"

#define SAID_MAX 65536 /* bytes of a line */
#define DOWN_MS	 60000

/* What the keeper says, line by line. */
struct listener {
	struct source source;
	struct buf said;
	template_notice *notice;
	void *self;
	char *error; /* owned */
	bool up, ended;
};

static void take_line(struct listener *l, const char *line, size_t len)
{
	struct err err;
	CLEAN(json) struct json *j = json_parse(line, len, &err);
	const char *text = json_get_str(j, "notice");

	if (text)
		l->notice(l->self, text);
	if (json_get_str(j, "up"))
		l->up = true;
	text = json_get_str(j, "error");
	if (text && !l->error)
		l->error = xstrdup(text);
}

static void listener_ready(void *self, short events)
{
	struct listener *l = self;
	char chunk[4096], *end;
	ssize_t n = recv(l->source.fd, chunk, sizeof(chunk), MSG_DONTWAIT);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || l->said.len > SAID_MAX) {
		l->ended = true;
		return;
	}
	buf_add(&l->said, chunk, (size_t)n);
	while (end = memchr(l->said.data, '\n', l->said.len), end) {
		size_t len = (size_t)(end - l->said.data);

		take_line(l, l->said.data, len);
		l->said.len -= len + 1;
		memmove(l->said.data, end + 1, l->said.len);
	}
}

static short listener_wants(const void *self)
{
	return ((const struct listener *)self)->ended ? 0 : POLLIN;
}

static bool heard(const void *arg)
{
	const struct listener *l = arg;

	return l->up || l->ended;
}

/* Closes all but the standard descriptors and these. */
static void close_others(const int *keep, size_t n)
{
	for (unsigned from = 3;;) {
		unsigned next = ~0U;

		for (size_t i = 0; i < n; i++)
			if ((unsigned)keep[i] >= from && (unsigned)keep[i] < next)
				next = (unsigned)keep[i];
		if (next > from)
			(void)close_range(from, next == ~0U ? next : next - 1, 0);
		if (next == ~0U)
			return;
		from = next + 1;
	}
}

/* As many descriptors as it may have: each caller takes one. */
static void raise_limit(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
}

/* Nothing of the caller's world but its environment. */
static bool leave_caller(const struct place *place, int told)
{
	static const int own[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCHLD, SIGTSTP };
	const int keep[] = { place->lock, place->dir, told };
	CLEAN(str) char *log = xasprintf("%s/keeper.log", place->path);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC),
	    words = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	sigset_t none;

	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		signal(own[i], SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (setsid() < 0 || null < 0 || words < 0 || dup2(null, 0) < 0 || dup2(words, 1) < 0 ||
		dup2(words, 2) < 0 || chdir("/") < 0)
		return false;
	close_others(keep, sizeof(keep) / sizeof(*keep));
	raise_limit();
	return true;
}

/* The keeper leaves our working folder, so its paths must not depend on that. */
static bool fix_home(struct err *err)
{
	CLEAN(str) char *home = home_path("");
	CLEAN(str) char *fixed = NULL;

	if (!dir_make(home, err))
		return false;
	fixed = realpath(home, NULL);
	return (fixed && setenv("POSTERN_HOME", fixed, 1) == 0) || err_errno(err, "%s", home);
}

static bool make_place(const char *name, struct place *place, struct err *err)
{
	struct json *ended;

	if (place_look(name) == PLACE_LEFT && !place_clear(name, err))
		return false;
	if (place_make(name, place, err))
		return true;
	if (err->code != ERR_DENIED)
		return false;
	ended = place_json(name, "ended.json");
	if (ended)
		err_set(err, ERR_DENIED,
			"there was a machine %s, which has ended (%s): postern down %s clears it "
			"away",
			name, json_get_str(ended, "why"), name);
	json_free(ended);
	return false;
}

/* After our own end of the wait: the keeper takes all away, which is waited for. It may have come
 * up at that moment, and does not look for our end any more: then it is told to. */
static void call_back(struct listener *l, const char *name, pid_t keeper)
{
	struct json *done = NULL;
	struct err err;

	(void)shutdown(l->source.fd, SHUT_WR);
	while (!l->ended) {
		struct pollfd pfd = { .fd = l->source.fd, .events = POLLIN };

		if (poll(&pfd, 1, -1) > 0)
			listener_ready(l, pfd.revents);
	}
	if (l->up)
		done = control_ask(name, "down", DOWN_MS, NULL, NULL, &err);
	if (l->up && !done)
		kill(keeper, SIGKILL);
	json_free(done);
}

/* Its word, or its end. */
static bool wait_for(
	struct loop *loop, struct listener *l, const char *name, pid_t keeper, struct err *err)
{
	bool ok = loop_until(loop, heard, l, CLOCK_NEVER, err);

	if (ok && l->up)
		return true;
	call_back(l, name, keeper);
	while (waitpid(keeper, NULL, 0) < 0 && errno == EINTR)
		;
	if (!ok)
		return false;
	return err_set(err, ERR_SYSTEM, "%s",
		l->error ? l->error : "its keeper was killed while the machine started");
}

static bool start(
	struct loop *loop, const struct keeper_spec *spec, struct listener *l, struct err *err)
{
	struct place place = { 0 };
	int theirs;
	pid_t pid;
	bool ok;

	if (!fix_home(err) || !make_place(spec->name, &place, err))
		return false;
	if (!fd_pair(&l->source.fd, &theirs, err)) {
		(void)place_remove(&place, &(struct err){ 0 });
		return false;
	}
	pid = fork();
	if (pid == 0) {
		if (!leave_caller(&place, theirs))
			_exit(127);
		keeper_run(spec, &place, theirs);
	}
	fd_close(&theirs);
	loop_add(loop, &l->source);
	ok = pid < 0 ? err_errno(err, "fork") : wait_for(loop, l, spec->name, pid, err);
	loop_remove(loop, &l->source);
	place_release(&place);
	if (!ok && place_look(spec->name) == PLACE_LEFT)
		(void)place_clear(spec->name, &(struct err){ 0 });
	return ok;
}

int64_t keeper_start(struct loop *loop, const struct keeper_spec *spec, template_notice *notice,
	void *self, struct err *err)
{
	struct listener l = { .notice = notice, .self = self };
	int64_t began = clock_ms();
	bool ok;

	l.source = (struct source){
		.fd = -1, .wants = listener_wants, .ready = listener_ready, .self = &l
	};
	ok = start(loop, spec, &l, err);
	fd_close(&l.source.fd);
	buf_release(&l.said);
	free(l.error);
	return ok ? clock_ms() - began : -1;
}
