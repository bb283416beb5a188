/* SPDX-License-Identifier: Apache-2.0 */
/* Statements that wait for something. */
#include "statements.h"

#include <stdio.h>

#include "messages.h"

#define TOKEN 0x5aa5c3bd00000000ull /* of our own PINGs */

/* What came, in words. */
static bool another(struct play *p, const struct waiting *w, const char *why)
{
	char hex[2 * 40 + 1] = "";

	for (size_t i = 0; i < w->body.len && i < 40; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", w->body.data[i]);
	return err_set(p->err, ERR_PEER, "%s %s %u/%u came with %zu bytes: %s", why,
		message_name(w->type), w->stream >> 2, w->stream & 3, w->body.len, hex);
}

/* Does the oldest waiting frame answer the description? */
static bool fits(struct play *p, const struct named *f, const struct waiting *w, size_t *ret_at)
{
	*ret_at = 0;
	return w->type == f->type && w->flags == f->flags && w->stream == f->stream &&
	       text_matches(&p->text, w->body, ret_at);
}

/* Waits for a frame and holds it against the words. */
static bool meet(
	struct play *p, const char *at, struct waiting **ret_frame, bool *ret_fits, size_t *ret_at)
{
	struct named f;

	if (!read_named(p, at, &f))
		return false;
	*ret_frame = channel_next(&p->channel, p->err);
	if (!*ret_frame || !read_text(p, f.words, (*ret_frame)->body))
		return false;
	*ret_fits = fits(p, &f, *ret_frame, ret_at);
	return true;
}

bool do_expect(struct play *p, const char *at)
{
	struct waiting *w;
	char why[40];
	size_t differs;
	bool fine;

	if (!meet(p, at, &w, &fine, &differs))
		return false;
	if (!fine) {
		(void)snprintf(why, sizeof(why), "differs at byte %zu:", differs);
		return another(p, w, differs ? why : "another frame:");
	}
	channel_drop(&p->channel);
	return true;
}

bool do_perhaps(struct play *p, const char *at)
{
	struct waiting *w;
	size_t differs;
	bool fine;

	if (!meet(p, at, &w, &fine, &differs))
		return false;
	if (fine)
		channel_drop(&p->channel);
	return true;
}

/* Without that answer the rest can't be tested. */
bool do_need(struct play *p, const char *at)
{
	struct waiting *w;
	size_t differs;
	bool fine;

	if (!meet(p, at, &w, &fine, &differs))
		return false;
	p->skipped = !fine;
	channel_drop(&p->channel);
	return true;
}

/* Has the operation, or all, come to its end? Then no more data will come. */
static const struct waiting *over(const struct channel *c, uint32_t stream)
{
	for (size_t i = 0; i < c->waiting; i++) {
		const struct waiting *w = &c->wait[i];
		bool end = w->type == EXIT || w->type == DONE || w->type == FAILED;

		if (w->type == HELLO || (end && w->stream >> 2 == stream >> 2))
			return w;
	}
	return NULL;
}

static bool await_data(struct play *p, struct stream *s, size_t len)
{
	while (s->len < len) {
		const struct waiting *w = over(&p->channel, s->number);

		if (w)
			return another(p, w, "too little data:");
		if (!channel_read(&p->channel, p->err)) {
			struct err why = *p->err;

			return err_set(p->err, why.code, "%zu of %zu bytes came: %s", s->len, len,
				why.text);
		}
	}
	return true;
}

bool do_data(struct play *p, const char *at)
{
	struct stream *s;
	uint32_t stream;
	size_t differs;

	if (!read_stream(p, &at, &stream) || !read_text(p, at, bytes_of(NULL, 0)))
		return false;
	s = channel_stream(&p->channel, stream);
	if (!await_data(p, s, p->text.len))
		return false;
	if (!text_matches(&p->text, bytes_of(s->data, p->text.len), &differs))
		return err_set(p->err, ERR_PEER, "byte %zu of the data is %02x, want %02x", differs,
			s->data[differs], p->text.byte[differs]);
	s->len -= p->text.len;
	memmove(s->data, s->data + p->text.len, s->len);
	return true;
}

/* The end flag, and not a byte more. */
bool do_end_of(struct play *p, const char *at)
{
	struct stream *s;
	uint32_t stream;

	if (!read_stream(p, &at, &stream))
		return false;
	s = channel_stream(&p->channel, stream);
	while (!s->ended) {
		const struct waiting *w = over(&p->channel, stream);

		if (w)
			return another(p, w, "no end of the stream:");
		if (!channel_read(&p->channel, p->err))
			return false;
	}
	return !s->len || err_set(p->err, ERR_PEER, "%zu bytes more before the end", s->len);
}

/* A PING is answered, and nothing comes before that. */
bool do_quiet(struct play *p, const char *at)
{
	struct channel *c = &p->channel;
	char line[64];

	(void)at;
	p->pings++;
	(void)snprintf(
		line, sizeof(line), "PING 0 u64=%llu", (unsigned long long)(TOKEN + p->pings));
	if (!do_send(p, line))
		return false;
	(void)snprintf(
		line, sizeof(line), "PONG 0 u64=%llu ...", (unsigned long long)(TOKEN + p->pings));
	if (!do_expect(p, line))
		return false;
	for (size_t i = 0; i < c->streams; i++)
		if (c->stream[i]->len)
			return err_set(p->err, ERR_PEER, "%zu bytes came on %u/%u",
				c->stream[i]->len, c->stream[i]->number >> 2,
				c->stream[i]->number & 3);
	return true;
}

/* The session is over: the agent greets. */
bool do_greeting(struct play *p, const char *at)
{
	static const uint8_t none[16];

	(void)at;
	for (;;) {
		struct waiting *w = channel_next(&p->channel, p->err);
		bool greets;

		if (!w)
			return false;
		greets = w->type == HELLO && !memcmp(w->body.data + 6, none, sizeof(none));
		channel_drop(&p->channel);
		if (greets) {
			p->channel.open = p->answered = false;
			p->given_up++;
			return true;
		}
	}
}
