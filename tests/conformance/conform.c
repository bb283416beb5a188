/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: conform [-t TEST] FILE.vec... -- AGENT [ARGUMENT...]
 *
 * Plays the tests of the files against an agent that serves on its descriptor 3. TAP on stdout;
 * ends with 1 when a test failed.
 */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "play.h"

#define LINES_MAX 4000

static struct {
	char *const *agent;
	const char *only; /* the one test that is wanted, or NULL */
	struct text_names names;
	unsigned number, failed;
} conform;

/* The lines of one file. */
static struct line lines[LINES_MAX];
static size_t count;

/* number 0: no line of it, but all. */
static _Noreturn void die(const char *file, unsigned number, const char *why)
{
	if (number)
		fprintf(stderr, "conform: %s:%u: %s\n", file, number, why);
	else
		fprintf(stderr, "conform: %s: %s\n", file, why);
	exit(2);
}

static char *keep(const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		die("memory", 0, strerror(errno));
	return copy;
}

/* Puts a line that begins with a tab behind the one before. */
static void join(const char *text)
{
	const char *before = lines[count - 1].text;
	size_t size = strlen(before) + strlen(text) + 1;
	char *both = malloc(size);

	if (!both)
		die("memory", 0, strerror(errno));
	(void)snprintf(both, size, "%s%s", before, text);
	free((void *)before);
	lines[count - 1].text = both;
}

static void read_lines(const char *name)
{
	FILE *file = fopen(name, "r");
	char *text = NULL;
	size_t size = 0;
	unsigned number = 0;

	if (!file)
		die(name, 0, strerror(errno));
	count = 0;
	while (getline(&text, &size, file) > 0) {
		number++;
		text[strcspn(text, "\n")] = 0;
		if (!*text || *text == '#')
			continue;
		if (*text == '\t' && count)
			join(text);
		else if (count < LINES_MAX)
			lines[count++] = (struct line){ number, keep(text) };
		else
			die(name, number, "too many lines");
	}
	free(text);
	fclose(file);
}

static void forget_lines(void)
{
	while (count)
		free((void *)lines[--count].text);
	conform.names.lets = 0;
}

/* let NAME WORDS */
static void take_let(const char *file, const struct line *line)
{
	struct text_names *names = &conform.names;
	char *name = (char *)line->text + 4, *end = name + strcspn(name, " \t");

	if (names->lets == TEXT_LETS || !*end)
		die(file, line->number, "a let that can't be");
	*end = 0;
	names->let[names->lets].name = name;
	names->let[names->lets].words = end + 1;
	names->lets++;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void run(const char *file, const char *name, const struct line *body, size_t n)
{
	char dir[] = "/tmp/conform.XXXXXX";
	enum verdict verdict;
	struct err err;
	unsigned line;

	if (!mkdtemp(dir))
		die(dir, 0, strerror(errno));
	conform.names.dir = dir;
	conform.number++;
	verdict = play(body, n, &conform.names, conform.agent, &line, &err);
	(void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	if (verdict == NOT_PASSED) {
		conform.failed++;
		printf("# %s:%u: %s\n", file, line, err.text);
	}
	printf("%s %u - %s%s\n", verdict == NOT_PASSED ? "not ok" : "ok", conform.number, name,
		verdict == SKIPPED ? " # SKIP the agent can't do this here" : "");
	fflush(stdout);
}

static bool begins(const struct line *line, const char *word)
{
	return !strncmp(line->text, word, strlen(word));
}

static void run_file(const char *file)
{
	size_t at = 0;

	read_lines(file);
	for (; at < count && !begins(&lines[at], "test "); at++) {
		if (!begins(&lines[at], "let "))
			die(file, lines[at].number, "a statement in front of the first test");
		take_let(file, &lines[at]);
	}
	while (at < count) {
		size_t start = at + 1;
		const char *name = lines[at].text + 5;

		for (at = start; at < count && !begins(&lines[at], "test ");)
			at++;
		if (!conform.only || !strcmp(conform.only, name))
			run(file, name, lines + start, at - start);
	}
	forget_lines();
}

int main(int argc, char **argv)
{
	int files = 1, end;

	if (argc > 2 && !strcmp(argv[1], "-t")) {
		conform.only = argv[2];
		files = 3;
	}
	for (end = files; end < argc && strcmp(argv[end], "--") != 0;)
		end++;
	if (end == files || end + 1 >= argc) {
		fprintf(stderr, "usage: conform [-t TEST] FILE.vec... -- AGENT [ARGUMENT...]\n");
		return 2;
	}
	conform.agent = argv + end + 1;
	/* Else each test would say it. */
	if (strchr(*conform.agent, '/') && access(*conform.agent, X_OK) < 0)
		die(*conform.agent, 0, strerror(errno));
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (int i = files; i < end; i++)
		run_file(argv[i]);
	if (conform.only && !conform.number)
		die(conform.only, 0, "no test of these files has this name");
	printf("1..%u\n", conform.number);
	return conform.failed || !conform.number;
}
