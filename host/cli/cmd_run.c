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

struct options {
	struct run_spec run;
	struct scenario *scenarios;
	struct image *images;
	char *script, *out;
	bool json;
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

/* A whole number from 1 to max; 0 when it is none. */
static int number(const char *s, int max)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(s, &end, 10);
	return *end || end == s || errno || n < 1 || n > max ? 0 : (int)n;
}

static bool is_url(const char *s)
{
	return !strncmp(s, "http://", 7) || !strncmp(s, "https://", 8);
}

static bool choose_model(struct options *o, const char *given, struct err *err)
{
	struct model *m = &o->run.model;

	if (!given)
		return err_set(err, ERR_INPUT,
			"--model is missing: a URL, solution, nothing or script:FILE");
	m->given = given;
	if (!strcmp(given, "nothing")) {
		m->kind = MODEL_NOTHING;
	} else if (!strcmp(given, "solution")) {
		m->kind = MODEL_SOLUTION;
	} else if (!strncmp(given, "script:", 7)) {
		m->kind = MODEL_SCRIPT;
		o->script = script_read(given + 7, err);
		m->script = o->script;
		return o->script;
	} else if (is_url(given)) {
		m->kind = MODEL_SERVER;
		m->url = given;
		m->key = getenv("POSTERN_API_KEY");
	} else {
		return err_set(err, ERR_INPUT,
			"--model %s: want a URL, solution, nothing or script:FILE", given);
	}
	return true;
}

static bool wrong_option(char **argv, struct err *err)
{
	const char *word = argv[optind - 1];

	/* getopt is still within a word of several letters. */
	if (*word != '-')
		word = argv[optind];
	return err_set(err, ERR_INPUT, "no option %s, or its value is missing", word);
}

static bool read_options(int argc, char **argv, struct options *o, struct err *err)
{
	static const struct option longs[] = {
		{ "model", required_argument, NULL, 'm' },
		{ "trials", required_argument, NULL, 'n' },
		{ "turns", required_argument, NULL, 't' },
		{ "time", required_argument, NULL, 's' },
		{ "out", required_argument, NULL, 'o' },
		{ "json", no_argument, NULL, 'j' },
		{ 0 },
	};
	const char *model = NULL;
	int c, n = 1;

	opterr = 0;
	o->run.trials = 1;
	while (n && (c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == 'm')
			model = optarg;
		else if (c == 'n')
			n = o->run.trials = number(optarg, TRIALS_MAX);
		else if (c == 't')
			n = o->run.turns = number(optarg, TURNS_MAX);
		else if (c == 's')
			o->run.time_s = n = number(optarg, TIME_MAX);
		else if (c == 'o')
			o->run.out = optarg;
		else if (c == 'j')
			o->json = true;
		else
			return wrong_option(argv, err);
	}
	if (!n)
		return err_set(err, ERR_INPUT, "%s: not a number in range", optarg);
	if (optind == argc)
		return err_set(err, ERR_INPUT, "no scenario given");
	return choose_model(o, model, err);
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
			return false;
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

		if (!image_open(s->front.image, &o->images[i], err))
			return err_in(err, "scenario %s", s->name);
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
		return false;
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

/* All that can be known to fail is found out before the first machine is started. */
static bool prepare(struct loop *loop, struct options *o, struct err *err)
{
	const struct model *m = &o->run.model;
	const char *why;

	if (!open_images(o, err))
		return false;
	if (m->kind == MODEL_SERVER && !talk_probe(loop, m->url, m->key, clock_in(PROBE_MS), err))
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
	return err->code == ERR_INPUT ? 2 : 1;
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
	if (!read_scenarios(argv + optind, &o, &err)) {
		fprintf(stderr, "postern run: %s\n", err.text);
		return 2;
	}
	return run_it(&o);
}

const struct cli_command cmd_run = {
	.name = "run",
	.args = "SCENARIO… --model URL|solution|nothing|script:FILE [--trials N] [--turns N] "
		"[--time S] [--out DIR] [--json]",
	.does = "let a model repair broken machines, and grade what it left",
	.details = "SCENARIO is a folder, or the name of one in ./scenarios.\n"
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
		   "Exit code: 0 all trials passed, 1 some did not, 2 wrong use, 130 interrupted.\n"
		   "\n"
		   "  postern run port-squatter --model http://127.0.0.1:8080 --trials 5\n",
	.run = run,
};
