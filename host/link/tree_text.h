/* SPDX-License-Identifier: Apache-2.0 */
/* Paths in a tree, for people. */
#ifndef TREE_TEXT_H
#define TREE_TEXT_H

#include "wire.h"

#define TREE_TEXT 256

/* Printable; of a long one the end. */
void tree_printable(struct bytes untrusted_path, char ret_text[TREE_TEXT]);

#endif
