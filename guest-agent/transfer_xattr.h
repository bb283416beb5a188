/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes as a manifest holds them. */
#ifndef TRANSFER_XATTR_H
#define TRANSFER_XATTR_H

#include "treestream.h"

/* Sorted by name, in buf. Follows no link. 0, or errno (then there are none): E2BIG when they are
 * larger than the limit. Changes the working folder to dir. */
int transfer_xattrs(
	int dir, const char *name, uint8_t buf[TREE_XATTR_MAX], struct bytes *ret_xattrs);

#endif
