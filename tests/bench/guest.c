/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest end of the raw port: the least that an agent can do, for postern to be compared with.
 *
 * As `serve` it takes one command per line from the port "bench.raw" and answers each with
 * "STATUS LENGTH\n" and LENGTH bytes:
 *
 *	echo		at once				(cost of the port alone)
 *	exec PATH	fork, exec PATH, wait		(plus one process)
 *	sh COMMAND	run by the shell, with output	(figures of the guest)
 *	pull N		write N bytes, then answer	(bulk, guest to host)
 *	push N		read N bytes, then answer	(bulk, host to guest)
 *	pipe N		as pull, but what a child writes into a pipe
 *	drain N		as push, but into a pipe that a child reads
 *
 * There are no frames, no credit and no recovery: it is a floor, not an agent to use.
 * As `write N` and `read N` it is the command at the other end of a stream: from memory, to memory.
 */
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT  "bench.raw"
#define CHUNK 32768 /* the most that the port's driver takes in one write */
#define PIECE 65536 /* of a command's output and input */

static char in[CHUNK], out[CHUNK];
static size_t have, used; /* in[used..have) is read and not yet taken */
static int port = -1;

static void rest(void)
{
	(void)poll(NULL, 0, 1);
}

/* Its node, if this is the name of our port. */
static int open_if_ours(const char *name_file)
{
	char name[64] = "", node[80];
	FILE *f = fopen(name_file, "re");
	bool ours = f && fgets(name, sizeof(name), f) && !strcmp(name, PORT "\n");

	if (f)
		fclose(f);
	if (!ours || sscanf(name_file, "/sys/class/virtio-ports/%40[^/]", name) != 1)
		return -1;
	(void)snprintf(node, sizeof(node), "/dev/%s", name);
	return open(node, O_RDWR | O_CLOEXEC);
}

static void open_port(void)
{
	glob_t found;

	for (; port < 0; rest()) {
		if (glob("/sys/class/virtio-ports/*/name", 0, NULL, &found))
			continue;
		for (size_t i = 0; i < found.gl_pathc && port < 0; i++)
			port = open_if_ours(found.gl_pathv[i]);
		globfree(&found);
	}
}

/* A read of 0 means that no host is connected. */
static void fill(void)
{
	ssize_t n;

	while ((n = read(port, in, sizeof(in))) <= 0)
		rest();
	have = (size_t)n;
	used = 0;
}

static void put(const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(port, data, len < CHUNK ? len : CHUNK);

		if (n <= 0) {
			rest();
			continue;
		}
		data += n;
		len -= (size_t)n;
	}
}

static void reply(int status, const char *data, size_t len)
{
	char head[64];
	int n = snprintf(head, sizeof(head), "%d %zu\n", status, len);

	put(head, (size_t)n);
	put(data, len);
}

static int ended(pid_t pid)
{
	int status;

	if (pid <= 0 || waitpid(pid, &status, 0) != pid)
		return 126;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run(const char *path)
{
	pid_t pid = fork();

	if (pid == 0) {
		execl(path, path, (char *)NULL);
		_exit(127);
	}
	return ended(pid);
}

static void shell(const char *command)
{
	FILE *p = popen(command, "r");
	size_t n = p ? fread(out, 1, sizeof(out), p) : 0;
	int status = p ? pclose(p) : -1;

	reply(status < 0 ? 126 : WEXITSTATUS(status), out, n);
}

static void pull(size_t len)
{
	memset(out, 'x', sizeof(out));
	for (; len > CHUNK; len -= CHUNK)
		put(out, CHUNK);
	put(out, len);
	reply(0, NULL, 0);
}

/* Hands on what comes, at most len bytes; returns how many. */
static size_t take(size_t len, const char **ret_data)
{
	size_t n;

	if (used == have)
		fill();
	n = have - used < len ? have - used : len;
	*ret_data = in + used;
	used += n;
	return n;
}

static void push(size_t len)
{
	const char *data;

	while (len)
		len -= take(len, &data);
	reply(0, NULL, 0);
}

/* This program with a mode and a size, its descriptor `fd` at one end of a pipe; ours is returned.
 */
static pid_t piped(const char *mode, size_t len, int fd, int *ret_ours)
{
	char number[24];
	int ends[2];
	pid_t pid;

	(void)snprintf(number, sizeof(number), "%zu", len);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		(void)dup2(ends[fd], fd);
		execl("/proc/self/exe", "guest", mode, number, (char *)NULL);
		_exit(127);
	}
	close(ends[fd]);
	*ret_ours = ends[!fd];
	return pid;
}

static void pull_pipe(size_t len)
{
	int from = -1;
	pid_t pid = piped("write", len, STDOUT_FILENO, &from);
	ssize_t n;

	while ((n = read(from, out, sizeof(out))) > 0)
		put(out, (size_t)n);
	close(from);
	reply(ended(pid), NULL, 0);
}

/* The driver hands out a page at a time: pieces are gathered before they wake the child. */
static void push_pipe(size_t len)
{
	int to = -1;
	pid_t pid = piped("read", len, STDIN_FILENO, &to);

	while (len) {
		size_t want = len < CHUNK ? len : CHUNK, n = 0;

		while (n < want) {
			const char *data;
			size_t got = take(want - n, &data);

			memcpy(out + n, data, got);
			n += got;
		}
		if (write(to, out, want) != (ssize_t)want)
			break;
		len -= want;
	}
	close(to);
	reply(ended(pid), NULL, 0);
}

static void obey(const char *line)
{
	const char *space = strchr(line, ' '), *rest_of = space ? space + 1 : "";
	size_t number = strtoull(rest_of, NULL, 10);

	if (!strcmp(line, "echo"))
		reply(0, NULL, 0);
	else if (!strncmp(line, "exec ", 5))
		reply(run(rest_of), NULL, 0);
	else if (!strncmp(line, "sh ", 3))
		shell(rest_of);
	else if (!strncmp(line, "pull ", 5))
		pull(number);
	else if (!strncmp(line, "push ", 5))
		push(number);
	else if (!strncmp(line, "pipe ", 5))
		pull_pipe(number);
	else if (!strncmp(line, "drain ", 6))
		push_pipe(number);
	else
		reply(125, NULL, 0);
}

static _Noreturn void serve(void)
{
	char line[4096];

	open_port();
	for (;;) {
		size_t n = 0;

		do {
			if (used == have)
				fill();
			line[n] = in[used++];
		} while (line[n] != '\n' && ++n < sizeof(line) - 1);
		line[n] = '\0';
		obey(line);
	}
}

/* From memory to stdout, or from stdin to memory. 1: the other end was gone before. */
static int stream(bool output, size_t len)
{
	static char piece[PIECE];

	memset(piece, 'x', sizeof(piece));
	while (len) {
		size_t want = len < PIECE ? len : PIECE;
		ssize_t n = output ? write(STDOUT_FILENO, piece, want)
				   : read(STDIN_FILENO, piece, want);

		if (n <= 0)
			return 1;
		len -= (size_t)n;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "serve"))
		serve();
	if (argc == 3 && (!strcmp(argv[1], "write") || !strcmp(argv[1], "read")))
		return stream(argv[1][0] == 'w', strtoull(argv[2], NULL, 10));
	fputs("usage: guest serve | write BYTES | read BYTES\n", stderr);
	return 2;
}
