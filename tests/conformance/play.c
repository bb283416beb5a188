/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions, loops, and which word is which statement. */
#include "play.h"

#include <stdio.h>
#include <sys/random.h>

#include "statements.h"

/* Draws a nonce. Only what is said from now on counts. */
static bool new_session(struct play *p, char epoch)
{
	struct channel *c = &p->channel;

	memset(p->names->epoch, epoch, sizeof(p->names->epoch));
	p->names->epoch[0] = p->given_up;
	p->answered = p->answered && !memcmp(p->epoch, p->names->epoch, sizeof(p->epoch));
	memcpy(p->epoch, p->names->epoch, sizeof(p->epoch));
	if (getrandom(c->nonce, sizeof(c->nonce), 0) != sizeof(c->nonce))
		return err_errno(p->err, "getrandom");
	memcpy(p->names->nonce, c->nonce, sizeof(c->nonce));
	c->open = false;
	channel_forget(c, !p->answered);
	return true;
}

/* The answer to our HELLO comes next. */
static bool await_answer(struct play *p, uint16_t *ret_flags)
{
	static const char answer[] = "u16=2 u32=* {nonce} {epoch} any=16 ...";
	struct waiting *w;
	size_t differs;

	for (;; channel_drop(&p->channel)) {
		w = channel_next(&p->channel, p->err);
		if (!w || !read_text(p, answer, bytes_of(NULL, 0)))
			return false;
		if (w->type == HELLO && text_matches(&p->text, w->body, &differs))
			break;
	}
	*ret_flags = (uint16_t)(w->body.data[54] << 8 | w->body.data[55]);
	channel_drop(&p->channel);
	p->channel.open = p->answered = true;
	return true;
}

/* hello EPOCH [claim] [new|held]: a session; what came before the answer is dropped. */
static bool do_hello(struct play *p, const char *at)
{
	char line[80];
	uint16_t flags;

	at = skip_blanks(at);
	if (!new_session(p, *at))
		return false;
	(void)snprintf(line, sizeof(line),
		"HELLO 0 u16=2 u32=0 {nonce} {epoch} zeros=16 u16=%d {crc=56}",
		p->answered || strstr(at, "claim"));
	if (!do_send(p, line) || !await_answer(p, &flags))
		return false;
	if (strstr(at, "held") && flags != 1)
		return err_set(p->err, ERR_PEER, "the answer has flags %u, want held", flags);
	return !strstr(at, "new") || !flags ||
	       err_set(p->err, ERR_PEER, "the answer has flags %u, want none", flags);
}

static bool play_until(struct play *p, size_t end);

/* for FIRST LAST ... end: {n} counts. */
static bool do_for(struct play *p, const char *at)
{
	unsigned long first, last;
	size_t start = p->at, end = start;

	if (!read_count(p, &at, &first) || !read_count(p, &at, &last))
		return false;
	while (end < p->n && strcmp(p->lines[end].text, "end") != 0)
		end++;
	if (end == p->n)
		return err_set(p->err, ERR_INPUT, "a for without an end");
	for (unsigned long i = first; i <= last; i++) {
		p->names->n = (unsigned)i;
		p->at = start;
		if (!play_until(p, end))
			return false;
	}
	p->at = end + 1;
	return true;
}

static const struct {
	const char *word;
	bool (*run)(struct play *p, const char *at);
} statements[] = {
	{ "hello", do_hello },
	{ ">", do_send },
	{ "<", do_expect },
	{ "<?", do_perhaps },
	{ "need", do_need },
	{ "<data", do_data },
	{ "<end", do_end_of },
	{ "<greeting", do_greeting },
	{ "quiet", do_quiet },
	{ "raw", do_raw },
	{ "cut", do_cut },
	{ "drop", do_drop },
	{ "slowly", do_slowly },
	{ "fill", do_fill },
	{ "for", do_for },
};

static bool play_line(struct play *p, const char *text)
{
	size_t len = strcspn(text, " \t");

	for (size_t i = 0; i < sizeof(statements) / sizeof(*statements); i++)
		if (strlen(statements[i].word) == len && !strncmp(statements[i].word, text, len))
			return statements[i].run(p, text + len);
	return err_set(p->err, ERR_INPUT, "no such statement");
}

/* On failure, at is behind the line. */
static bool play_until(struct play *p, size_t end)
{
	while (p->at < end && !p->skipped) {
		const char *text = p->lines[p->at++].text;

		if (!play_line(p, text))
			return false;
	}
	return true;
}

enum verdict play(const struct line *lines, size_t n, struct text_names *names, char *const *agent,
	unsigned *ret_line, struct err *err)
{
	static struct play p;
	struct err ending;
	bool fine;

	memset(&p, 0, sizeof(p));
	p.lines = lines;
	p.n = n;
	p.names = names;
	p.err = err;
	fine = channel_start(&p.channel, agent, err) && play_until(&p, n);
	*ret_line = p.at ? lines[p.at - 1].number : 0;
	if (!channel_stop(&p.channel, &ending)) {
		if (fine)
			*err = ending;
		else
			(void)err_in(err, "%s", ending.text);
		fine = false;
	}
	return !fine ? NOT_PASSED : p.skipped ? SKIPPED : PASSED;
}
