/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are mostly holes. */
#include "template_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

#define PAGE  4096
#define CHUNK 262144

struct walk {
	int from, to; /* to -1: nowhere */
	off_t size;
	struct sha256 *sum; /* NULL: not asked for */
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
	if (w->sum) {
		add_number(w->sum, at / PAGE);
		sha256_add(w->sum, bytes, len);
	}
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
static bool walk(struct walk *w)
{
	off_t at = 0, data;

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
	return at >= w->size || errno == ENXIO;
}

static bool walk_and_hash(struct walk w, char ret_hash[SHA256_TEXT])
{
	struct sha256 sum;

	w.sum = &sum;
	sha256_init(&sum);
	add_number(&sum, w.size);
	if (!walk(&w))
		return false;
	sha256_end_text(&sum, ret_hash);
	return true;
}

static int create(const char *path)
{
	return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

/* Gives the new file the old one's size. */
static bool measure(struct walk *w)
{
	struct stat st;

	if (fstat(w->from, &st) < 0 || (w->to >= 0 && ftruncate(w->to, st.st_size) < 0))
		return false;
	w->size = st.st_size;
	return true;
}

bool pages_copy(int from, const char *path, char ret_hash[SHA256_TEXT], struct err *err)
{
	CLEAN(fd) int to = create(path);
	struct walk w = { .from = from, .to = to };

	if (to < 0 || !measure(&w) || !walk_and_hash(w, ret_hash) || fsync(to) < 0)
		return err_errno(err, "%s", path);
	return true;
}

bool pages_clone(const char *from, const char *path, struct err *err)
{
	CLEAN(fd) int old = open(from, O_RDONLY | O_CLOEXEC);
	CLEAN(fd) int new = old < 0 ? -1 : create(path);
	struct walk w = { .from = old, .to = new };

	if (old < 0)
		return err_errno(err, "%s", from);
	if (new >= 0 && (ioctl(new, FICLONE, old) == 0 || (measure(&w) && walk(&w))))
		return true;
	return err_errno(err, "%s", path);
}

bool pages_hash(const char *path, char ret_hash[SHA256_TEXT], struct err *err)
{
	CLEAN(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct walk w = { .from = fd, .to = -1 };

	return (fd >= 0 && measure(&w) && walk_and_hash(w, ret_hash)) || err_errno(err, "%s", path);
}

bool pages_sync(const char *path, struct err *err)
{
	CLEAN(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);

	return (fd >= 0 && fsync(fd) == 0) || err_errno(err, "%s", path);
}
