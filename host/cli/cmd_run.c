/* SPDX-License-Identifier: Apache-2.0 */
/* postern run: scenarios, a model, a table. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "command.h"
#include "eval/run.h"
#include "eval/table.h"
#include "model/talk.h"

#define TRIALS_MAX 1000
#define TURNS_MAX  1000
#define TIME_MAX   86400
#define PROBE_MS   120000
#define NOTICE_MS  2000

struct options {
	struct run_spec run;
	struct scenario *scenarios;
	struct image *images;
	char *script, *out;
	bool json, help;
};

static void options_clean(struct options *o)
{
	for (size_t i = 0; i < o->run.scenarios_len; i++) {
		scenario_release(&o->scenarios[i]);
		image_release(&o->images[i]);
	}
	free(o->scenarios);
	free(o->images);
	free(o->script);
	free(o->out);
}

/* A whole number from 1 to max. */
static bool number(const char *option, const char *s, int max, int *ret, struct err *err)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(s, &end, 10);
	if (*end || end == s || errno || n < 1 || n > max)
		return err_set(
			err, ERR_INPUT, "%s %s: want a whole number from 1 to %d", option, s, max);
	*ret = (int)n;
	return true;
}

static bool is_url(const char *s)
{
	return !strncmp(s, "http://", 7) || !strncmp(s, "https://", 8);
}

/* HOST:PORT, perhaps with a path: a URL but for its scheme. */
static bool lacks_scheme(const char *s)
{
	size_t host = strcspn(s, ":/");

	return host && s[host] == ':' && s[host + 1] >= '0' && s[host + 1] <= '9';
}

static bool not_a_model(const char *given, struct err *err)
{
	if (lacks_scheme(given))
		return err_set(err, ERR_INPUT,
			"--model %.200s: want a URL; did you mean http://%.200s?", given, given);
	return err_set(
		err, ERR_INPUT, "--model %s: want a URL, solution, nothing or script:FILE", given);
}

static bool read_script(struct options *o, const char *path, struct err *err)
{
	size_t len = strlen(path);
	struct err inner;

	if (!len)
		return err_set(err, ERR_INPUT, "--model script: lacks its file: want script:FILE");
	o->script = script_read(path, &inner);
	o->run.model.script = o->script;
	if (o->script)
		return true;
	/* What went wrong begins with the path, which we say ourselves. */
	if (strncmp(inner.text, path, len) != 0 || strncmp(inner.text + len, ": ", 2) != 0)
		len = 0;
	return err_set(err, inner.code, "--model script:%.200s: %.200s", path,
		inner.text + (len ? len + 2 : 0));
}

static bool choose_model(struct options *o, struct err *err)
{
	struct model *m = &o->run.model;
	const char *given = m->given;

	if (!given)
		return err_set(err, ERR_INPUT,
			"--model is missing: want a URL, solution, nothing or script:FILE");
	if (!strcmp(given, "nothing")) {
		m->kind = MODEL_NOTHING;
	} else if (!strcmp(given, "solution")) {
		m->kind = MODEL_SOLUTION;
	} else if (!strncmp(given, "script:", 7)) {
		m->kind = MODEL_SCRIPT;
		return read_script(o, given + 7, err);
	} else if (is_url(given)) {
		m->kind = MODEL_SERVER;
		m->url = given;
		m->key = getenv("POSTERN_API_KEY");
	} else {
		return not_a_model(given, err);
	}
	return true;
}

enum { MODEL = LONG_OPTION, TRIALS, TURNS, TIME, OUT, JSON };

static const struct option longs[] = {
	{ "model", required_argument, NULL, MODEL },
	{ "trials", required_argument, NULL, TRIALS },
	{ "turns", required_argument, NULL, TURNS },
	{ "time", required_argument, NULL, TIME },
	{ "out", required_argument, NULL, OUT },
	{ "json", no_argument, NULL, JSON },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static bool read_options(int argc, char **argv, struct options *o, struct err *err)
{
	bool good = true;
	int c, seconds = 0;

	o->run.trials = 1;
	while (good && (c = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
		if (c == MODEL)
			o->run.model.given = optarg;
		else if (c == TRIALS)
			good = number("--trials", optarg, TRIALS_MAX, &o->run.trials, err);
		else if (c == TURNS)
			good = number("--turns", optarg, TURNS_MAX, &o->run.turns, err);
		else if (c == TIME)
			good = number("--time", optarg, TIME_MAX, &seconds, err);
		else if (c == OUT)
			o->run.out = optarg;
		else if (c == JSON)
			o->json = true;
		else if (c == 'h')
			return o->help = true;
		else
			good = option_refused(c, argv, err);
	}
	if (!good)
		return false;
	o->run.time_s = seconds;
	return optind < argc || err_set(err, ERR_INPUT, "no scenario given");
}

/* err says why a scenario could not be opened. If there is none of that name, names those that
 * there are. */
static bool name_others(const char *name, struct err *err)
{
	CLEAN(str) char *there = xasprintf("scenarios/%s", name);
	CLEAN(str) char *others = NULL;
	struct err ignored;

	if (!dir_list("scenarios", "scenario.md", &others, &ignored) || !others ||
		file_exists(name) || file_exists(there))
		return false;
	return err_set(err, ERR_INPUT, "%.100s: no such scenario; there %s %.300s in ./scenarios",
		name, strchr(others, ',') ? "are" : "is", others);
}

static bool name_is_new(const struct options *o, const char *name, struct err *err)
{
	for (size_t i = 0; i < o->run.scenarios_len; i++)
		if (!strcmp(o->scenarios[i].name, name))
			return err_set(err, ERR_INPUT,
				"two scenarios are named %s: run them one after the other", name);
	return true;
}

static bool read_scenarios(char **names, struct options *o, struct err *err)
{
	size_t n = 0;

	while (names[n])
		n++;
	o->scenarios = xcalloc(n, sizeof(*o->scenarios));
	o->images = xcalloc(n, sizeof(*o->images));
	o->run.scenarios = o->scenarios;
	o->run.images = o->images;
	for (size_t i = 0; i < n; i++) {
		struct scenario s;

		if (!scenario_open(names[i], &s, err))
			return name_others(names[i], err);
		if (!name_is_new(o, s.name, err)) {
			scenario_release(&s);
			return false;
		}
		o->scenarios[o->run.scenarios_len++] = s;
	}
	return true;
}

static bool open_images(struct options *o, struct err *err)
{
	for (size_t i = 0; i < o->run.scenarios_len; i++) {
		const struct scenario *s = &o->scenarios[i];

		if (!image_open(s->front.image, &o->images[i], err)) {
			/* An image that was not built is no wrong use. */
			err->code = ERR_SYSTEM;
			return err_in(err, "scenario %s", s->name);
		}
		if (!o->images[i].disk)
			return err_set(err, ERR_INPUT,
				"scenario %s: image %s has no disk, and a scenario needs one",
				s->name, s->front.image);
	}
	return true;
}

/* Is nobody else using it? Held until the process ends. */
static bool folder_lock(const char *path, struct err *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, "--out %s", path);
	/* A file system without locks is no reason to refuse. */
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
		return true;
	close(fd);
	return err_set(
		err, ERR_INPUT, "--out %s: another run uses the folder; name a new one", path);
}

static bool folder_is_empty(const char *path, struct err *err)
{
	DIR *dir = opendir(path);
	bool empty = true;
	struct dirent *entry;

	if (!dir)
		return errno == ENOENT || err_errno(err, "--out %s", path);
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			empty = false;
	closedir(dir);
	return empty ||
	       err_set(err, ERR_INPUT, "--out %s: the folder is not empty; name a new one", path);
}

/* A new folder named after the time. Runs that begin in the same second get a number. */
static bool make_stamped(struct options *o, struct err *err)
{
	time_t now = time(NULL);
	struct tm local;
	char stamp[32];

	if (!dir_make("runs", err))
		return err_in(err, "name another folder with --out");
	localtime_r(&now, &local);
	strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &local);
	o->out = xasprintf("runs/%s", stamp);
	for (int i = 2; mkdir(o->out, 0777) < 0; i++) {
		if (errno != EEXIST)
			return err_errno(err, "%s", o->out);
		free(o->out);
		o->out = xasprintf("runs/%s-%d", stamp, i);
	}
	o->run.out = o->out;
	return true;
}

static bool make_out(struct options *o, struct err *err)
{
	const char *out = o->run.out;

	if (!out)
		return make_stamped(o, err);
	return folder_is_empty(out, err) && dir_make(out, err) && folder_lock(out, err) &&
	       folder_is_empty(out, err);
}

/* Says once that a server keeps us waiting. */
struct notice {
	const char *url;
	int64_t due;
};

static int64_t notice_due(const void *self)
{
	const struct notice *n = self;

	return n->due;
}

static void notice_ready(void *self, short events)
{
	struct notice *n = self;

	(void)events;
	n->due = CLOCK_NEVER;
	fprintf(stderr, "waiting for the model server at %s; it may still be loading\n", n->url);
}

static bool probe(struct loop *loop, const struct model *m, struct err *err)
{
	struct notice notice = { .url = m->url, .due = clock_in(NOTICE_MS) };
	struct source source = {
		.fd = -1, .due = notice_due, .ready = notice_ready, .self = &notice
	};
	bool ok;

	loop_add(loop, &source);
	ok = talk_probe(loop, m->url, m->key, clock_in(PROBE_MS), err);
	loop_remove(loop, &source);
	return ok;
}

/* All that can be known to fail is found out before the first machine is started. */
static bool prepare(struct loop *loop, struct options *o, struct err *err)
{
	const struct model *m = &o->run.model;
	const char *why;

	if (!open_images(o, err))
		return false;
	if (m->kind == MODEL_SERVER && !probe(loop, m, err))
		return false;
	return accel_choose(loop, &o->run.accel, &why, err) && make_out(o, err);
}

static int finish(const struct loop *loop, const struct options *o, const struct json *trials)
{
	size_t planned = o->run.scenarios_len * (size_t)o->run.trials;
	CLEAN(buf) struct buf text = { 0 };

	(o->json ? table_json : table_text)(trials, planned, o->run.out, &text);
	fputs(buf_text(&text), stdout);
	if (loop->interrupted)
		return 130;
	return table_count(trials).passed == planned ? 0 : 1;
}

static int failed(const struct loop *loop, const struct err *err)
{
	if (loop->interrupted)
		return 130;
	fprintf(stderr, "postern run: %s\n", err->text);
	return err->code == ERR_INPUT ? 2 : 125;
}

static int run_it(struct options *o)
{
	CLEAN(json) struct json *trials = NULL;
	struct err err = { 0 };
	struct loop loop;
	int code;

	if (!loop_init(&loop, true, &err) || !prepare(&loop, o, &err) ||
		!(trials = run_all(&loop, &o->run, &err)))
		code = failed(&loop, &err);
	else
		code = finish(&loop, o, trials);
	loop_release(&loop);
	return code;
}

static int run(int argc, char **argv)
{
	CLEAN(options) struct options o = { 0 };
	struct err err = { 0 };

	if (!read_options(argc, argv, &o, &err))
		return usage_error(&cmd_run, "%s", err.text);
	if (o.help)
		return usage_help(&cmd_run);
	if (!choose_model(&o, &err) || !read_scenarios(argv + optind, &o, &err)) {
		fprintf(stderr, "postern run: %s\n", err.text);
		return 2;
	}
	return run_it(&o);
}

const struct cli_command cmd_run = {
	.name = "run",
	.args = "SCENARIO… --model URL|solution|nothing|script:FILE [--trials N] [--turns N] "
		"[--time S] [--out DIR] [--json]",
	.does = "Let a model repair broken machines, and grade what it left",
	.details =
		"SCENARIO is a folder, or the name of one in ./scenarios.\n"
		"\n"
		"  --model URL          llama-server, or any server of its kind; "
		"$POSTERN_API_KEY is its key\n"
		"  --model solution     the scenario's own fix.sh, as root in the machine\n"
		"  --model nothing      nobody repairs anything\n"
		"  --model script:FILE  a shell script, as root in the machine\n"
		"  --trials N           attempts at each scenario (1)\n"
		"  --turns N            replies of the model, at most (the scenario's)\n"
		"  --time S             seconds for the model's work (the scenario's, more "
		"without KVM)\n"
		"  --out DIR            where trials are recorded (runs/DATE-TIME)\n"
		"  --json               one JSON object per trial and a summary instead of the "
		"table\n"
		"\n"
		"Exit code: 0 all trials passed, 1 some did not, 2 wrong use, 125 nothing could\n"
		"be run (no image, no model server), 130 interrupted.\n"
		"\n"
		"Example: postern run port-squatter --model http://127.0.0.1:8080 --trials 5\n",
	.run = run,
};
