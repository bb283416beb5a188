/* SPDX-License-Identifier: Apache-2.0 */
/* Terminal, user, directory, then exec. */
#include "program.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "report.h"
#include "terminal.h"
#include "text.h"
#include "user.h"

/* The strings of a request, each with its NUL. Lives in the child alone. */
static char strings[PAYLOAD_MAX];
static char *args[ARGS_MAX + 1], *environment[ENV_MAX + 1];

static char *lay_out(char *at, const struct bytes *list, size_t n, char **pointers)
{
	for (size_t i = 0; i < n; i++) {
		pointers[i] = at;
		memcpy(at, list[i].data, list[i].len);
		at += list[i].len;
		*at++ = '\0';
	}
	pointers[n] = NULL;
	return at;
}

static const char *search_path(void)
{
	for (char **e = environment; *e; e++)
		if (!strncmp(*e, "PATH=", 5))
			return *e + 5;
	return SEARCH_PATH;
}

/* Tries each directory of the path. Returns with the most telling errno. */
static void exec_searched(const char *name)
{
	const char *dir = search_path();
	char path[PATH_LENGTH];
	int why = ENOENT;

	for (;;) {
		size_t len = strcspn(dir, ":");
		struct text text = text_in(path, sizeof(path));

		text_add_part(&text, dir, len);
		text_add(&text, len ? "/" : "");
		text_add(&text, name);
		if (!text.cut) {
			execve(path, args, environment);
			if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
				return;
			if (errno == EACCES || access(path, F_OK) == 0)
				why = EACCES;
		}
		if (!dir[len])
			break;
		dir += len + 1;
	}
	errno = why;
}

static enum fail_kind exec_failure(const char *path)
{
	switch (errno) {
	case ENOENT:
	case ENOTDIR:
		/* A script whose interpreter is missing is there all the same. */
		return access(path, F_OK) == 0 ? FAIL_NOT_EXECUTABLE : FAIL_NOT_FOUND;
	case E2BIG:
	case EAGAIN:
	case EMFILE:
	case ENFILE:
	case ENOMEM:
		return FAIL_RESOURCES;
	default:
		return FAIL_NOT_EXECUTABLE;
	}
}

static _Noreturn void fail(int socket, enum fail_kind kind, int error, const char *text)
{
	struct report report = { .about = REPORT_FAILED, .kind = kind, .error = error };
	struct text why = text_in(report.text, sizeof(report.text));

	text_add(&why, text);
	report_send(socket, &report, -1);
	_exit(127);
}

/* The user of the command; root when none is asked for. */
static void find_user(const struct msg_exec *m, int report, struct user *user)
{
	int error;

	user->uid = getuid();
	if (!m->user.len)
		return;
	error = user_find(m->user, user);
	if (error)
		fail(report, FAIL_USER, error, error == ENOENT ? "there is no such user" : "");
}

_Noreturn void program_become(const struct msg_exec *m, int report)
{
	static struct user user;
	char *dir;
	int error;

	dir = lay_out(strings, m->argv, m->argc, args);
	dir = lay_out(dir, m->env, m->envc, environment);
	(void)lay_out(dir, &m->dir, 1, (char *[2]){ 0 });
	assert(args[0]); /* the decoder refuses an empty vector */
	find_user(m, report, &user);
	if (m->flags & EXEC_PTY) {
		int master = terminal_make(m->rows, m->columns, user.uid);

		if (master < 0)
			fail(report, FAIL_RESOURCES, errno, "no terminal can be made");
		report_send(report, &(struct report){ .about = REPORT_TERMINAL }, master);
		close(master);
	}
	if (m->user.len && (error = user_become(&user)) != 0)
		fail(report, FAIL_USER, error, "");
	if (chdir(*dir ? dir : "/") < 0)
		fail(report, FAIL_DIRECTORY, errno, "");
	if (strchr(args[0], '/')) {
		execve(args[0], args, environment);
		error = errno;
		fail(report, exec_failure(args[0]), error, "");
	}
	exec_searched(args[0]);
	error = errno;
	fail(report, exec_failure(""), error, "");
}
