/* SPDX-License-Identifier: Apache-2.0 */
/* Words to bytes. */
#include "text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "crc32.h"

#define NESTED 4 /* names in names */

/* One line while it is read. */
struct reading {
	struct text *text;
	const struct text_names *names;
	struct bytes actual;
	const char *at;
	unsigned depth;
	struct err *err;
};

static bool add(struct reading *r, const void *data, size_t len, bool any)
{
	struct text *t = r->text;

	if (len > sizeof(t->byte) - t->len)
		return err_set(r->err, ERR_INPUT, "a line makes more than %d bytes", TEXT_ROOM);
	if (data)
		memcpy(t->byte + t->len, data, len);
	else
		memset(t->byte + t->len, 0, len);
	memset(t->any + t->len, any, len);
	t->len += len;
	return true;
}

static bool add_number(struct reading *r, size_t bytes, uint64_t value, bool any)
{
	uint8_t out[8];

	for (size_t i = 0; i < bytes; i++)
		out[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
	if (bytes < 8 && value >> 8 * bytes)
		return err_set(r->err, ERR_INPUT, "%llu is too large", (unsigned long long)value);
	return add(r, out, bytes, any);
}

/* Takes a number, decimal or with 0x. */
static bool take_number(struct reading *r, uint64_t *ret_value)
{
	char *end;

	if (!strncmp(r->at, "{n}", 3)) {
		*ret_value = r->names->n;
		r->at += 3;
		return true;
	}
	*ret_value = strtoull(r->at, &end, 0);
	if (end == r->at)
		return err_set(r->err, ERR_INPUT, "not a number: %.20s", r->at);
	r->at = end;
	return true;
}

static bool skip(struct reading *r, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(r->at, word, len) != 0)
		return false;
	r->at += len;
	return true;
}

static int digit(char c)
{
	return !isxdigit((unsigned char)c) ? -1 : c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
}

/* One character between quotes, or what {dir} and {n} stand for. */
static bool add_quoted(struct reading *r)
{
	static const char codes[] = "n\nr\rt\te\033";
	char number[16];
	const char *code;
	uint8_t byte;

	if (skip(r, "{dir}"))
		return add(r, r->names->dir, strlen(r->names->dir), false);
	if (skip(r, "{n}")) {
		(void)snprintf(number, sizeof(number), "%u", r->names->n);
		return add(r, number, strlen(number), false);
	}
	if (*r->at != '\\')
		return add(r, r->at++, 1, false);
	r->at++;
	if (*r->at == 'x' && digit(r->at[1]) >= 0 && digit(r->at[2]) >= 0) {
		byte = (uint8_t)(digit(r->at[1]) << 4 | digit(r->at[2]));
		r->at += 3;
		return add(r, &byte, 1, false);
	}
	for (code = codes; *code && *code != *r->at; code += 2)
		;
	if (!*r->at)
		return err_set(r->err, ERR_INPUT, "a \\ at the end");
	r->at++;
	return add(r, *code ? code + 1 : r->at - 1, 1, false);
}

static bool add_quotes(struct reading *r, char quote)
{
	while (*r->at && *r->at != quote)
		if (!add_quoted(r))
			return false;
	if (*r->at != quote)
		return err_set(r->err, ERR_INPUT, "no closing %c", quote);
	r->at++;
	return true;
}

/* A length and that many bytes; "*" takes both from what has come. */
static bool add_string(struct reading *r)
{
	size_t start = r->text->len, len;
	struct reader actual = { NULL, NULL, true };

	if (skip(r, "*\"")) {
		if (start <= r->actual.len)
			actual = reader_of(bytes_of(r->actual.data + start, r->actual.len - start));
		len = get_bytes(&actual).len;
		return add(r, NULL, 4, true) && add(r, NULL, len, true);
	}
	if (!add(r, NULL, 4, false) || !add_quotes(r, '"'))
		return false;
	len = r->text->len - start - 4;
	for (size_t i = 0; i < 4; i++)
		r->text->byte[start + i] = (uint8_t)(len >> 8 * (3 - i));
	return true;
}

static bool add_hex(struct reading *r)
{
	for (; digit(*r->at) >= 0; r->at += 2) {
		uint8_t byte = (uint8_t)(digit(r->at[0]) << 4 | (digit(r->at[1]) & 15));

		if (digit(r->at[1]) < 0)
			return err_set(r->err, ERR_INPUT, "an odd number of hex digits");
		if (!add(r, &byte, 1, false))
			return false;
	}
	return true;
}

static bool add_crc(struct reading *r)
{
	uint64_t len;

	if (!take_number(r, &len))
		return false;
	if (!skip(r, "}") || len > r->text->len)
		return err_set(r->err, ERR_INPUT, "a {crc=N} of bytes that are not there");
	return add_number(r, 4, crc32_of(r->text->byte + r->text->len - len, (size_t)len), false);
}

static bool read_words(struct reading *r);

static bool add_named(struct reading *r)
{
	const struct text_names *names = r->names;
	size_t len = strcspn(r->at, " \t");
	struct reading inner = *r;

	for (size_t i = 0; i < names->lets && r->depth < NESTED; i++) {
		if (strlen(names->let[i].name) != len || strncmp(names->let[i].name, r->at, len))
			continue;
		inner.at = names->let[i].words;
		inner.depth++;
		r->at += len;
		return read_words(&inner);
	}
	return err_set(r->err, ERR_INPUT, "no let for $%.*s", (int)len, r->at);
}

static bool read_word(struct reading *r)
{
	static const struct {
		const char *word;
		size_t bytes;
	} numbers[] = { { "u8=", 1 }, { "u16=", 2 }, { "u32=", 4 }, { "u64=", 8 } };
	uint64_t value;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		if (!skip(r, numbers[i].word))
			continue;
		if (skip(r, "*"))
			return add_number(r, numbers[i].bytes, 0, true);
		return take_number(r, &value) && add_number(r, numbers[i].bytes, value, false);
	}
	if (skip(r, "zeros="))
		return take_number(r, &value) && add(r, NULL, (size_t)value, false);
	if (skip(r, "any="))
		return take_number(r, &value) && add(r, NULL, (size_t)value, true);
	if (skip(r, "\""))
		return add_string(r);
	if (skip(r, "'"))
		return add_quotes(r, '\'');
	if (skip(r, "{nonce}"))
		return add(r, r->names->nonce, 16, false);
	if (skip(r, "{tag}"))
		return add(r, r->names->nonce, 4, false);
	if (skip(r, "{epoch}"))
		return add(r, r->names->epoch, 16, false);
	if (skip(r, "{crc="))
		return add_crc(r);
	if (skip(r, "$"))
		return add_named(r);
	if (skip(r, "...")) {
		r->text->open = true;
		return true;
	}
	return add_hex(r);
}

/* A label in front of a word is for people. */
static void skip_label(struct reading *r)
{
	size_t len = strspn(r->at, "abcdefghijklmnopqrstuvwxyz0123456789_");

	if (r->at[len] == ':')
		r->at += len + 1;
}

static bool read_words(struct reading *r)
{
	for (;;) {
		const char *word;

		r->at += strspn(r->at, " \t");
		if (!*r->at || *r->at == '#')
			return true;
		word = r->at;
		skip_label(r);
		if (!read_word(r))
			return false;
		if (*r->at && !isspace((unsigned char)*r->at))
			return err_set(r->err, ERR_INPUT, "not understood: %.40s", word);
	}
}

bool text_read(struct text *t, const char *words, const struct text_names *names,
	struct bytes actual, struct err *err)
{
	struct reading r = { .text = t, .names = names, .actual = actual, .at = words, .err = err };

	t->len = 0;
	t->open = false;
	return read_words(&r);
}

bool text_matches(const struct text *t, struct bytes actual, size_t *ret_at)
{
	size_t i = 0;

	while (i < t->len && i < actual.len && (t->any[i] || t->byte[i] == actual.data[i]))
		i++;
	*ret_at = i;
	return i == t->len && (t->open || i == actual.len);
}
