/* SPDX-License-Identifier: Apache-2.0 */
/* Path and cause, fitted into a bounded text. */
#include "transfer_text.h"

#include <string.h>

#define WHY_ROOM 80 /* bytes of the text that a path leaves free */

static size_t add(char *text, size_t len, struct bytes b)
{
	for (size_t i = 0; i < b.len && len < TEXT_MAX - 1; i++)
		text[len++] = b.data[i] < ' ' || b.data[i] == 0x7f ? '?' : (char)b.data[i];
	return len;
}

/* At most the last `room` bytes of b. */
static struct bytes tail(struct bytes b, size_t room)
{
	size_t cut = b.len > room ? b.len - room : 0;

	cut += cut && room && b.data[cut] == '/';
	return bytes_of(b.data + cut, b.len - cut);
}

bool transfer_fail(struct transfer_result *result, int error, const char *top, struct bytes rest,
	const char *why)
{
	size_t room = TEXT_MAX - WHY_ROOM, len = 0;
	struct bytes first = bytes_str(top);

	if (result->error)
		return false;
	result->error = error;
	rest = tail(rest, room);
	if (first.len + rest.len > room) {
		first = tail(first, room - rest.len);
		len = add(result->text, len, bytes_str("..."));
	}
	len = add(result->text, len, first);
	if (rest.len && first.len && first.data[first.len - 1] != '/')
		len = add(result->text, len, bytes_str("/"));
	len = add(result->text, len, rest);
	len = add(result->text, len, bytes_str(": "));
	len = add(result->text, len, bytes_str(why ? why : strerror(error)));
	result->text[len] = '\0';
	return false;
}
