/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted model server of the tests. */
#include "fake_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define NOTHING "{\"choices\":[{\"message\":{\"content\":\"\"},\"finish_reason\":\"stop\"}]}"

/* Reads a request into the next place. False when the client left before it was complete. */
static bool read_request(int fd, struct fake_request *r)
{
	char *data = r->body, *end = NULL, *length;
	size_t len = 0, want = 0;

	memset(r, 0, sizeof(*r));
	while (!end || len < want) {
		ssize_t n = read(fd, data + len, sizeof(r->body) - 1 - len);

		if (n <= 0)
			return false;
		len += (size_t)n;
		if (end || !(end = strstr(data, "\r\n\r\n")))
			continue;
		end += 4;
		want = (size_t)(end - data);
		length = strcasestr(data, "\r\nContent-Length:");
		if (length && length < end)
			want += strtoul(length + 17, NULL, 10);
	}
	CHECK((size_t)(end - data) < sizeof(r->head));
	memcpy(r->head, data, (size_t)(end - data));
	memmove(data, end, want - (size_t)(end - data));
	data[want - (size_t)(end - data)] = '\0';
	return true;
}

static void send_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		text += n;
		len -= (size_t)n;
	}
}

static void reply(int fd, int status, const char *header, const char *body)
{
	char head[512];
	int n = snprintf(head, sizeof(head),
		"HTTP/1.1 %d Scripted\r\nContent-Length: %zu\r\n%s%sConnection: close\r\n\r\n",
		status ? status : 200, strlen(body), header ? header : "", header ? "\r\n" : "");

	send_all(fd, head, (size_t)n);
	send_all(fd, body, strlen(body));
}

/* Waits until the client hangs up. */
static void hang(int fd, struct fake_seen *seen)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	if (poll(&p, 1, 15000) == 1)
		seen->hung_up++;
}

static void look(int fd, const struct fake_spec *spec, struct fake_seen *seen, const char *head)
{
	if (seen->looks++ < spec->loading)
		reply(fd, 503, NULL, "{\"error\":{\"code\":503,\"message\":\"Loading model\"}}");
	else if (!strncmp(head, "GET /v1/models", 14))
		reply(fd, spec->models_status, NULL, "{\"data\":[{\"id\":\"toy\"}]}");
	else if (!strncmp(head, "GET /health", 11))
		reply(fd, 200, NULL, "{\"status\":\"ok\"}");
	else
		reply(fd, spec->props ? 200 : 404, NULL, spec->props ? spec->props : "{}");
}

static void serve_one(int fd, const struct fake_spec *spec, struct fake_seen *seen)
{
	static const struct fake_step nothing = { .body = NOTHING };
	struct fake_request *r = &seen->request[seen->requests];
	const struct fake_step *step = &nothing;

	if (!read_request(fd, r))
		return;
	if (!strncmp(r->head, "GET ", 4)) {
		look(fd, spec, seen, r->head);
		return;
	}
	if (seen->requests < spec->count)
		step = &spec->steps[seen->requests];
	if (seen->requests < FAKE_REQUESTS - 1)
		seen->requests++;
	if (!strcmp(step->body, "hang"))
		hang(fd, seen);
	else if (!strcmp(step->body, "die"))
		_exit(0);
	else if (strcmp(step->body, "close") != 0)
		reply(fd, step->status, step->header, step->body);
}

static _Noreturn void serve(int listener, const struct fake_spec *spec, struct fake_seen *seen)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			continue;
		serve_one(fd, spec, seen);
		close(fd);
	}
}

void fake_start(struct fake_server *server, const struct fake_spec *spec)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t len = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons(spec->port);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	CHECK(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0);
	CHECK(listen(listener, 8) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&address, &len) == 0);
	if (!server->seen)
		server->seen = mmap(NULL, sizeof(*server->seen), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(server->seen != MAP_FAILED);
	(void)snprintf(
		server->url, sizeof(server->url), "http://127.0.0.1:%u", ntohs(address.sin_port));
	server->pid = fork();
	CHECK(server->pid >= 0);
	if (server->pid == 0)
		serve(listener, spec, server->seen);
	close(listener);
}

void fake_stop(struct fake_server *server)
{
	kill(server->pid, SIGKILL);
	(void)waitpid(server->pid, NULL, 0);
	munmap(server->seen, sizeof(*server->seen));
	server->seen = NULL;
}
