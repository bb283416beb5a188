/* SPDX-License-Identifier: Apache-2.0 */
/* Cut and tame. */
#include "tree_text.h"

#define DOTS "..."

void tree_printable(struct bytes untrusted_path, char ret_text[TREE_TEXT])
{
	size_t room = TREE_TEXT - sizeof(DOTS), at = 0, len = 0;

	if (untrusted_path.len > room) {
		at = untrusted_path.len - room;
		memcpy(ret_text, DOTS, strlen(DOTS));
		len = strlen(DOTS);
	}
	for (; at < untrusted_path.len; at++) {
		uint8_t c = untrusted_path.data[at];

		ret_text[len++] = c < ' ' || c >= 0x7f ? '?' : (char)c;
	}
	ret_text[len] = '\0';
}
