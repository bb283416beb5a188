/* SPDX-License-Identifier: Apache-2.0 */
/* List, sort, read. */
#include "transfer_xattr.h"

#include <errno.h>
#include <sys/xattr.h>
#include <unistd.h>

static int why(void)
{
	return errno == ERANGE ? E2BIG : errno;
}

/* The first name after `last`; NULL: there is none. */
static const char *name_after(const char *names, size_t len, const char *last)
{
	const char *best = NULL;

	for (const char *n = names; n < names + len; n += strlen(n) + 1)
		if (strcmp(n, last) > 0 && (!best || strcmp(n, best) < 0))
			best = n;
	return best;
}

static int put_value(struct writer *w, const char *path, const char *name)
{
	struct writer size = *w;
	uint8_t *value;
	ssize_t n;

	put_bytes(w, bytes_str(name));
	put_u32(w, 0);
	if (w->bad || w->at == w->end)
		return E2BIG;
	value = w->at;
	n = lgetxattr(path, name, value, (size_t)(w->end - value));
	if (n < 0)
		return why();
	put_bytes(&size, bytes_str(name));
	put_u32(&size, (uint32_t)n);
	w->at = value + n;
	return 0;
}

int transfer_xattrs(
	int dir, const char *name, uint8_t buf[TREE_XATTR_MAX], struct bytes *ret_xattrs)
{
	struct writer w = writer_of(buf, TREE_XATTR_MAX);
	char names[TREE_XATTR_MAX];
	const char *at = "";
	ssize_t len;

	*ret_xattrs = bytes_of(buf, 0);
	/* These calls have no form with a folder's descriptor. The top needs none. */
	if (dir >= 0 && fchdir(dir) < 0)
		return errno;
	len = llistxattr(name, names, sizeof(names));
	if (len < 0)
		return errno == EOPNOTSUPP ? 0 : why();
	while ((at = name_after(names, (size_t)len, at))) {
		struct writer before = w;
		int error = put_value(&w, name, at);

		if (error == ENODATA) /* removed meanwhile */
			w = before;
		else if (error)
			return error;
	}
	*ret_xattrs = bytes_of(buf, (size_t)(w.at - buf));
	return 0;
}
