/* SPDX-License-Identifier: Apache-2.0 */
/* A run: trials one after the other, each in a worker process. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "trial_state.h"
#include "watch.h"

#define STOP_MS	  20000 /* a worker that was asked to stop is killed after this */
#define TRIAL_MAX (1 << 20)

/* A group of its own: Ctrl-C reaches us alone, and we tell the worker. */
static _Noreturn void work(
	struct loop *parents, struct trial_spec *spec, int progress, pid_t parent)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent || null < 0 || dup2(null, STDIN_FILENO) < 0)
		_exit(TRIAL_FAILED);
	fd_close(&null);
	loop_release(parents);
	spec->progress = progress;
	_exit((int)trial_run(spec));
}

static bool has_ended(const void *watch)
{
	return ((const struct watch *)watch)->ended;
}

/* The worker ends its QEMU and then itself; the loop no longer turns for us. */
static void stop(struct watch *w, pid_t pid)
{
	int64_t deadline = clock_in(STOP_MS);

	kill(pid, SIGTERM);
	while (!w->ended) {
		struct pollfd pfd = { .fd = w->source.fd, .events = POLLIN };
		int64_t left = deadline - clock_ms();

		if (left <= 0)
			break;
		if (poll(&pfd, 1, (int)left) > 0)
			w->source.ready(w, pfd.revents);
	}
	if (!w->ended)
		kill(pid, SIGKILL);
}

static int reap(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

/* A worker that ended without a trial.json, and not because the user said so. */
static bool write_off(
	const struct trial_spec *spec, int status, const struct watch *w, struct err *err)
{
	char reason[256];

	if (WIFSIGNALED(status))
		(void)snprintf(
			reason, sizeof(reason), "worker ended by signal %d", WTERMSIG(status));
	else
		(void)snprintf(reason, sizeof(reason), "worker ended with status %d: %s",
			WEXITSTATUS(status), w->step);
	return trial_write_off(spec, reason, err);
}

static pid_t start(struct loop *loop, struct trial_spec *spec, int *ret_fd, struct err *err)
{
	pid_t parent = getpid(), pid;
	int ends[2];

	fflush(NULL);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "pipe"), -1;
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		work(loop, spec, ends[1], parent);
	}
	close(ends[1]);
	*ret_fd = ends[0];
	if (pid < 0) {
		err_errno(err, "starting a worker");
		fd_close(ret_fd);
	}
	return pid;
}

/* False with ERR_INTERRUPTED, or when the host failed. */
static bool run_worker(struct loop *loop, struct trial_spec *spec, int of, struct err *err)
{
	struct watch w;
	int fd, status;
	pid_t pid = start(loop, spec, &fd, err);
	bool ok;

	if (pid < 0)
		return false;
	watch_init(&w, fd, spec->scenario->name, spec->number, of);
	loop_add(loop, &w.source);
	ok = loop_until(loop, has_ended, &w, CLOCK_NEVER, err);
	if (!ok)
		stop(&w, pid);
	status = reap(pid);
	loop_remove(loop, &w.source);
	if (ok && !(WIFEXITED(status) && WEXITSTATUS(status) == TRIAL_DONE))
		ok = write_off(spec, status, &w, err);
	watch_release(&w);
	return ok;
}

static bool run_one(struct loop *loop, const struct run_spec *run, size_t i, int number,
	struct json *trials, struct err *err)
{
	const struct scenario *scenario = &run->scenarios[i];
	CLEAN(str) char *folder = xasprintf("%s/%s/%d", run->out, scenario->name, number);
	CLEAN(str) char *path = xasprintf("%s/trial.json", folder);
	int factor = accel_time_factor(run->accel);
	int64_t time_s = run->time_s ? run->time_s : (int64_t)scenario->front.time_s * factor;
	struct trial_spec spec = {
		.scenario = scenario,
		.image = &run->images[i],
		.model = &run->model,
		.number = number,
		.turns = run->turns ? run->turns : scenario->front.turns,
		.time_ms = time_s * 1000,
		.accel = run->accel,
		.folder = folder,
	};
	struct json *trial;

	if (!run_worker(loop, &spec, run->trials, err))
		return false;
	trial = json_parse_file(path, TRIAL_MAX, err);
	if (!trial)
		return false;
	json_add(trials, trial);
	return true;
}

struct json *run_all(struct loop *loop, const struct run_spec *spec, struct err *err)
{
	CLEAN(json) struct json *trials = json_array();

	for (size_t i = 0; i < spec->scenarios_len; i++)
		for (int number = 1; number <= spec->trials; number++)
			if (!run_one(loop, spec, i, number, trials, err))
				return loop->interrupted ? json_take(&trials) : NULL;
	return json_take(&trials);
}
