/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP requests by libcurl.
 *
 * How it works. libcurl says which sockets it wants watched for what, and when it must be called
 * at the latest; both become sources of the loop for the time of one request.
 */
#include "http.h"

#include <assert.h>
#include <curl/curl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/xalloc.h"

#define SOCKETS		   8 /* two addresses raced and the resolver need three */
#define CONNECT_TIMEOUT_MS 10000L

struct transfer;

struct watch {
	struct source source; /* fd -1: free */
	short events;
	struct transfer *transfer;
};

struct transfer {
	struct loop *loop;
	CURLM *multi;
	CURL *easy;
	struct curl_slist *headers;
	struct watch watches[SOCKETS];
	struct source timer;
	int64_t timer_due;
	struct buf *body;
	bool too_large;
	bool done;
	CURLcode code;
};

static void take_action(struct transfer *t, curl_socket_t fd, int events)
{
	int running, left;
	CURLMsg *msg;

	curl_multi_socket_action(t->multi, fd, events, &running);
	while ((msg = curl_multi_info_read(t->multi, &left)))
		if (msg->msg == CURLMSG_DONE) {
			t->done = true;
			t->code = msg->data.result;
		}
}

static short watch_wants(const void *self)
{
	return ((const struct watch *)self)->events;
}

static void watch_ready(void *self, short events)
{
	struct watch *w = self;
	int action = 0;

	if (events & (POLLIN | POLLHUP))
		action |= CURL_CSELECT_IN;
	if (events & POLLOUT)
		action |= CURL_CSELECT_OUT;
	if (events & (POLLERR | POLLNVAL))
		action |= CURL_CSELECT_ERR;
	take_action(w->transfer, w->source.fd, action);
}

static int64_t timer_due(const void *self)
{
	return ((const struct transfer *)self)->timer_due;
}

static void timer_ready(void *self, short events)
{
	struct transfer *t = self;

	(void)events;
	t->timer_due = CLOCK_NEVER;
	take_action(t, CURL_SOCKET_TIMEOUT, 0);
}

/* The watch of this descriptor, or with -1 a free one. */
static struct watch *find_watch(struct transfer *t, int fd)
{
	for (int i = 0; i < SOCKETS; i++)
		if (t->watches[i].source.fd == fd)
			return &t->watches[i];
	return NULL;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *socket_user)
{
	struct transfer *t = user;
	struct watch *w = find_watch(t, fd);

	(void)easy;
	(void)socket_user;
	if (what == CURL_POLL_REMOVE) {
		if (w) {
			loop_remove(t->loop, &w->source);
			w->source.fd = -1;
		}
		return 0;
	}
	if (!w) {
		w = find_watch(t, -1);
		assert(w && "SOCKETS is too small");
		w->source.fd = fd;
		loop_add(t->loop, &w->source);
	}
	w->events = 0;
	if (what & CURL_POLL_IN)
		w->events |= POLLIN;
	if (what & CURL_POLL_OUT)
		w->events |= POLLOUT;
	return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *user)
{
	struct transfer *t = user;

	(void)multi;
	t->timer_due = timeout_ms < 0 ? CLOCK_NEVER : clock_in(timeout_ms);
	return 0;
}

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
	struct transfer *t = user;
	size_t len = size * n;

	if (len > HTTP_REPLY_MAX - t->body->len) {
		t->too_large = true;
		return 0;
	}
	buf_add(t->body, data, len);
	return len;
}

/* libcurl's own sockets would be inherited by the programs that we start. */
static curl_socket_t on_open(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
	(void)user;
	(void)purpose;
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static void add_header(struct transfer *t, const char *line)
{
	struct curl_slist *more = curl_slist_append(t->headers, line);

	if (!more)
		out_of_memory();
	t->headers = more;
}

static void set_request(struct transfer *t, const struct http_request *r)
{
	CURL *e = t->easy;

	curl_easy_setopt(e, CURLOPT_URL, r->url);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(e, CURLOPT_USERAGENT, "postern/" VERSION);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
	/* A model may think for minutes without a byte on the wire. */
	curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
	if (r->key) {
		char *line = xasprintf("Authorization: Bearer %s", r->key);

		add_header(t, line);
		free(line);
	}
	if (r->body) {
		curl_easy_setopt(e, CURLOPT_POSTFIELDS, r->body);
		curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(r->body));
		add_header(t, "Content-Type: application/json");
		add_header(t, "Expect:");
	}
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->headers);
}

static void transfer_start(
	struct transfer *t, struct loop *loop, const struct http_request *request, struct buf *body)
{
	static bool ready;

	if (!ready && curl_global_init(CURL_GLOBAL_DEFAULT))
		out_of_memory();
	ready = true;
	*t = (struct transfer){
		.loop = loop,
		.multi = curl_multi_init(),
		.easy = curl_easy_init(),
		.timer = { .fd = -1, .due = timer_due, .ready = timer_ready, .self = t },
		.timer_due = CLOCK_NEVER,
		.body = body,
	};
	if (!t->multi || !t->easy)
		out_of_memory();
	for (int i = 0; i < SOCKETS; i++) {
		struct watch *w = &t->watches[i];

		w->source = (struct source){
			.fd = -1, .wants = watch_wants, .ready = watch_ready, .self = w
		};
		w->transfer = t;
	}
	curl_multi_setopt(t->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(t->multi, CURLMOPT_SOCKETDATA, t);
	curl_multi_setopt(t->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(t->multi, CURLMOPT_TIMERDATA, t);
	loop_add(loop, &t->timer);
	set_request(t, request);
	curl_multi_add_handle(t->multi, t->easy);
}

static void transfer_release(struct transfer *t)
{
	curl_multi_remove_handle(t->multi, t->easy);
	curl_easy_cleanup(t->easy);
	curl_multi_cleanup(t->multi);
	curl_slist_free_all(t->headers);
	for (int i = 0; i < SOCKETS; i++)
		loop_remove(t->loop, &t->watches[i].source);
	loop_remove(t->loop, &t->timer);
}

static bool is_done(const void *arg)
{
	return ((const struct transfer *)arg)->done;
}

static enum http_end explain(const struct transfer *t, struct err *err)
{
	long number = 0;

	switch (t->code) {
	case CURLE_OK:
		return HTTP_ANSWERED;
	case CURLE_COULDNT_CONNECT:
	case CURLE_GOT_NOTHING:
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
	case CURLE_PARTIAL_FILE:
	case CURLE_OPERATION_TIMEDOUT:
		curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &number);
		err_set(err, ERR_PEER, "%s",
			number ? strerror((int)number) : curl_easy_strerror(t->code));
		return HTTP_GONE;
	default:
		if (t->too_large)
			err_set(err, ERR_LIMIT, "the reply is larger than %d MiB",
				HTTP_REPLY_MAX >> 20);
		else
			err_set(err, ERR_PEER, "%s", curl_easy_strerror(t->code));
		return HTTP_FAILED;
	}
}

enum http_end http_run(struct loop *loop, const struct http_request *request,
	struct http_reply *ret_reply, struct err *err)
{
	struct transfer t;
	enum http_end end;
	long status = 0;

	transfer_start(&t, loop, request, &ret_reply->body);
	if (loop_until(loop, is_done, &t, request->deadline, err))
		end = explain(&t, err);
	else
		end = err->code == ERR_TIME ? HTTP_TIME : HTTP_STOPPED;
	curl_easy_getinfo(t.easy, CURLINFO_RESPONSE_CODE, &status);
	ret_reply->status = (int)status;
	transfer_release(&t);
	return end;
}
