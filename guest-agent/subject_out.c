/* SPDX-License-Identifier: Apache-2.0 */
/* Gather bytes, write them when there are enough. */
#include "subject_out.h"

#include <errno.h>
#include <unistd.h>

static const char digits[] = "0123456789abcdef";

bool out_flush(struct out *out)
{
	size_t at = 0;

	while (!out->broken && at < out->len) {
		ssize_t n = write(1, out->buf + at, out->len - at);

		if (n > 0)
			at += (size_t)n;
		else if (errno != EINTR)
			out->broken = true;
	}
	out->len = 0;
	return !out->broken;
}

void out_raw(struct out *out, struct bytes b)
{
	for (size_t at = 0, n; at < b.len; at += n) {
		if (out->len == sizeof(out->buf))
			(void)out_flush(out);
		n = sizeof(out->buf) - out->len;
		n = b.len - at < n ? b.len - at : n;
		memcpy(out->buf + out->len, b.data + at, n);
		out->len += n;
	}
}

void out_text(struct out *out, const char *s)
{
	out_raw(out, bytes_str(s));
}

void out_hex(struct out *out, struct bytes b)
{
	for (size_t i = 0; i < b.len; i++) {
		out_raw(out, bytes_of(&digits[b.data[i] >> 4], 1));
		out_raw(out, bytes_of(&digits[b.data[i] & 15], 1));
	}
}

void out_name(struct out *out, const char *name)
{
	for (const char *p = name; *p; p++) {
		bool odd = (uint8_t)*p < ' ' || *p == 0x7f || *p == '\\';

		if (odd)
			out_text(out, "\\x");
		(odd ? out_hex : out_raw)(out, bytes_of(p, 1));
	}
}

void out_number(struct out *out, uint64_t n, unsigned base)
{
	char text[22];
	size_t at = sizeof(text);

	do {
		text[--at] = digits[n % base];
		n /= base;
	} while (n);
	out_raw(out, bytes_of(text + at, sizeof(text) - at));
}

bool subject_failed(const char *path, const char *why)
{
	struct out out = { 0 };

	why = why ? why : strerror(errno);
	out_text(&out, "subject: ");
	out_name(&out, path);
	out_text(&out, ": ");
	out_text(&out, why);
	out_text(&out, "\n");
	/* A long path does not keep its end. */
	(void)!write(2, out.buf, out.len);
	return false;
}
