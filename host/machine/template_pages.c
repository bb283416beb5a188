/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are mostly holes. */
#include "template_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "sha256.h"

#define PAGE  4096
#define CHUNK 262144

struct walk {
	int from, to; /* to -1: nowhere */
	off_t size;
	struct sha256 sum;
};

static void add_number(struct sha256 *sum, off_t n)
{
	uint8_t bytes[8];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)((uint64_t)n >> 8 * i);
	sha256_add(sum, bytes, sizeof(bytes));
}

static bool is_zero(const char *bytes, size_t len)
{
	return len && !bytes[0] && !memcmp(bytes, bytes + 1, len - 1);
}

static bool take_page(struct walk *w, off_t at, const char *bytes, size_t len)
{
	if (is_zero(bytes, len))
		return true;
	add_number(&w->sum, at / PAGE);
	sha256_add(&w->sum, bytes, len);
	return w->to < 0 || pwrite(w->to, bytes, len, at) == (ssize_t)len;
}

static bool take_data(struct walk *w, off_t at, off_t end)
{
	char chunk[CHUNK];

	while (at < end) {
		off_t want = end - at < CHUNK ? end - at : CHUNK;
		ssize_t n = pread(w->from, chunk, (size_t)want, at);

		if (n != want)
			return false;
		for (ssize_t i = 0; i < n; i += PAGE)
			if (!take_page(w, at + i, chunk + i, (size_t)(n - i < PAGE ? n - i : PAGE)))
				return false;
		at += n;
	}
	return true;
}

/* False leaves the reason in errno. */
static bool walk(struct walk *w, char ret_hash[PAGES_HASH])
{
	off_t at = 0, data;
	uint8_t hash[32];

	sha256_init(&w->sum);
	add_number(&w->sum, w->size);
	errno = EIO;
	while (at < w->size && (data = lseek(w->from, at, SEEK_DATA)) >= 0) {
		off_t end = lseek(w->from, data, SEEK_HOLE);

		data -= data % PAGE;
		end += end < 0 ? 0 : (PAGE - end % PAGE) % PAGE;
		at = end < w->size ? end : w->size;
		errno = EIO;
		if (end < 0 || !take_data(w, data, at))
			return false;
	}
	if (at < w->size && errno != ENXIO)
		return false;
	sha256_end(&w->sum, hash);
	for (size_t i = 0; i < sizeof(hash); i++)
		(void)snprintf(ret_hash + 2 * i, 3, "%02x", hash[i]);
	return true;
}

bool pages_copy(int from, const char *path, char ret_hash[PAGES_HASH], struct err *err)
{
	CLEAN(fd) int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct walk w = { .from = from, .to = to };
	struct stat st;

	if (to < 0 || fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
		return err_errno(err, "%s", path);
	w.size = st.st_size;
	if (!walk(&w, ret_hash) || fsync(to) < 0)
		return err_errno(err, "%s", path);
	return true;
}

bool pages_hash(const char *path, char ret_hash[PAGES_HASH], struct err *err)
{
	CLEAN(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct walk w = { .from = fd, .to = -1 };
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "%s", path);
	w.size = st.st_size;
	return walk(&w, ret_hash) || err_errno(err, "%s", path);
}

bool pages_sync(const char *path, struct err *err)
{
	CLEAN(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);

	return (fd >= 0 && fsync(fd) == 0) || err_errno(err, "%s", path);
}
