/* SPDX-License-Identifier: Apache-2.0 */
/* What a check said: TAP, read strictly. */
#include "tap.h"

#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"

/* One line without its end. */
struct line {
	const char *at;
	size_t len;
	unsigned number;
};

struct reader {
	struct tap *tap;
	struct buf diagnostics; /* of the last result */
	size_t plan;		/* 0: not seen */
	bool plan_last;		/* nothing but diagnostics may follow */
};

static bool printable(char c)
{
	return c >= ' ' && c <= '~';
}

static bool skip(struct line *l, const char *prefix)
{
	size_t len = strlen(prefix);

	if (l->len < len || memcmp(l->at, prefix, len) != 0)
		return false;
	l->at += len;
	l->len -= len;
	return true;
}

/* A number from 1 to TAP_CHECKS without leading zeros; 0 when there is none. */
static size_t take_number(struct line *l)
{
	size_t n = 0;

	if (!l->len || *l->at == '0')
		return 0;
	while (l->len && *l->at >= '0' && *l->at <= '9') {
		n = n * 10 + (size_t)(*l->at - '0');
		if (n > TAP_CHECKS)
			return 0;
		l->at++;
		l->len--;
	}
	return n;
}

static bool read_plan(struct reader *r, struct line l, struct err *err)
{
	size_t n = take_number(&l);

	if (!n || l.len)
		return err_set(err, ERR_INPUT, "line %u: not a plan of 1 to %d checks", l.number,
			TAP_CHECKS);
	if (r->plan)
		return err_set(err, ERR_INPUT, "line %u: a second plan", l.number);
	r->plan = n;
	r->plan_last = r->tap->len > 0;
	return true;
}

static void end_check(struct reader *r)
{
	if (r->tap->len && r->diagnostics.len)
		r->tap->checks[r->tap->len - 1].diagnostics = buf_take(&r->diagnostics);
	buf_release(&r->diagnostics);
}

static bool name_is_good(const struct line *l)
{
	if (!l->len || l->len >= TAP_NAME || l->at[0] == ' ' || l->at[l->len - 1] == ' ')
		return false;
	for (size_t i = 0; i < l->len; i++)
		if (!printable(l->at[i]) || l->at[i] == '#' || l->at[i] == '\\')
			return false;
	return true;
}

static bool name_is_new(const struct tap *tap, const struct line *l)
{
	for (size_t i = 0; i < tap->len; i++)
		if (strlen(tap->checks[i].name) == l->len &&
			!memcmp(tap->checks[i].name, l->at, l->len))
			return false;
	return true;
}

static bool read_result(struct reader *r, struct line l, bool ok, struct err *err)
{
	struct tap *tap = r->tap;
	size_t n = take_number(&l);
	struct tap_check *check;

	if (r->plan_last)
		return err_set(err, ERR_INPUT, "line %u: a result behind the plan", l.number);
	if (n != tap->len + 1)
		return err_set(err, ERR_INPUT, "line %u: want result %zu", l.number, tap->len + 1);
	if (!skip(&l, " - ") || !name_is_good(&l))
		return err_set(err, ERR_INPUT,
			"line %u: want \" - NAME\" of printable ASCII without # and \\, below "
			"%d bytes",
			l.number, TAP_NAME);
	if (!name_is_new(tap, &l))
		return err_set(err, ERR_INPUT, "line %u: the name was there before", l.number);
	end_check(r);
	tap->checks = xrealloc(tap->checks, n * sizeof(*tap->checks));
	check = &tap->checks[tap->len++];
	*check = (struct tap_check){ .ok = ok };
	memcpy(check->name, l.at, l.len);
	tap->failed += !ok;
	return true;
}

static void read_diagnostic(struct reader *r, struct line l)
{
	if (r->diagnostics.len + l.len + 1 > TAP_DIAGNOSTICS)
		return;
	(void)skip(&l, " ");
	for (size_t i = 0; i < l.len; i++)
		buf_add(&r->diagnostics, printable(l.at[i]) ? &l.at[i] : "?", 1);
	buf_str(&r->diagnostics, "\n");
}

static bool read_line(struct reader *r, struct line l, struct err *err)
{
	if (skip(&l, "ok "))
		return read_result(r, l, true, err);
	if (skip(&l, "not ok "))
		return read_result(r, l, false, err);
	if (skip(&l, "1.."))
		return read_plan(r, l, err);
	if (!skip(&l, "#"))
		return err_set(err, ERR_INPUT, "line %u: not a line of TAP", l.number);
	read_diagnostic(r, l);
	return true;
}

static bool read_lines(struct reader *r, const char *text, size_t len, struct err *err)
{
	struct line l = { .number = 0 };

	while (len) {
		const char *end = memchr(text, '\n', len);

		l = (struct line){ text, end ? (size_t)(end - text) : len, l.number + 1 };
		if (!end)
			return err_set(err, ERR_INPUT, "line %u: not ended", l.number);
		if (!read_line(r, l, err))
			return false;
		len -= l.len + 1;
		text = end + 1;
	}
	return true;
}

bool tap_parse(const char *untrusted_text, size_t len, struct tap *ret_tap, struct err *err)
{
	struct reader r = { .tap = ret_tap };
	bool ok;

	*ret_tap = (struct tap){ 0 };
	ok = read_lines(&r, untrusted_text, len, err);
	end_check(&r);
	if (!ok)
		return false;
	if (!r.plan)
		return err_set(err, ERR_INPUT, "no plan: the check did not reach its end");
	if (r.plan != ret_tap->len)
		return err_set(err, ERR_INPUT, "%zu checks were planned, %zu reported", r.plan,
			ret_tap->len);
	return true;
}

void tap_release(struct tap *tap)
{
	for (size_t i = 0; i < tap->len; i++)
		free(tap->checks[i].diagnostics);
	free(tap->checks);
	*tap = (struct tap){ 0 };
}
