/* SPDX-License-Identifier: Apache-2.0 */
/* Find the port, live through hang-ups and unplugging. */
#include "port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "kernfs.h"
#include "limits.h"
#include "text.h"

#define CLASS	    "/sys/class/virtio-ports"
#define NODE	    "/.port"
#define RETRY_MS    100
#define HUNG_MS	    250
#define WRITE_MAX   32768
#define NAME_LENGTH 32

void port_init(struct port *port, int fd)
{
	*port = (struct port){ .fd = fd, .socket = fd >= 0 };
	if (fd >= 0) {
		fcntl(fd, F_SETFD, FD_CLOEXEC);
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	}
}

/* False: the file can't be read, or does not fit. */
static bool read_of_port(int class, const char *entry, const char *file, char *text, size_t size)
{
	char path[NAME_LENGTH + 8];
	struct text name = text_in(path, sizeof(path));

	text_add(&name, entry);
	text_add(&name, file);
	return !name.cut && kernfs_read(class, path, text, size);
}

static bool is_device(const struct stat *st, dev_t device)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == device;
}

/* Opens what stands at path if it is that device, and was so all the time. */
static int open_device(const char *path, dev_t device)
{
	struct stat st;
	int fd;

	if (stat(path, &st) < 0 || !is_device(&st, device))
		return -1;
	fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (fd >= 0 && (fstat(fd, &st) < 0 || !is_device(&st, device))) {
		close(fd);
		errno = ENODEV;
		fd = -1;
	}
	return fd;
}

/* By the node in /dev, or one that we make for a moment: /dev may have lost its own. */
static int open_node(const char *entry, dev_t device)
{
	char path[NAME_LENGTH + 8];
	struct text name = text_in(path, sizeof(path));
	int fd;

	text_add(&name, "/dev/");
	text_add(&name, entry);
	fd = open_device(path, device);
	if (fd >= 0 || errno == EBUSY)
		return fd;
	(void)unlink(NODE);
	if (mknod(NODE, S_IFCHR | 0600, device) < 0)
		return -1;
	fd = open_device(NODE, device);
	(void)unlink(NODE);
	return fd;
}

/* Opens a port of the class, if it is ours. The name appears some time after the port. */
static int open_if_ours(int class, const char *entry)
{
	char text[64];
	const char *at = text;
	uint64_t major, minor;

	if (!read_of_port(class, entry, "/name", text, sizeof(text)) ||
		strcmp(text, PORT_NAME) != 0 ||
		!read_of_port(class, entry, "/dev", text, sizeof(text)) ||
		!text_number(&at, &major) || *at++ != ':' || !text_number(&at, &minor))
		return -1;
	return open_node(entry, makedev((unsigned)major, (unsigned)minor));
}

/* Looks through all ports there are. */
static bool find_node(struct port *port)
{
	struct listing list = { .fd = -1 };
	const char *entry;

	port->next = now_ms() + RETRY_MS;
	list.fd = open(CLASS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (list.fd < 0)
		return false;
	errno = 0;
	while (port->fd < 0 && (entry = listing_next(&list))) {
		port->fd = open_if_ours(list.fd, entry);
		if (port->fd < 0 && errno == EBUSY)
			port->taken = true;
	}
	close(list.fd);
	port->hung = false;
	return port->fd >= 0;
}

bool port_find(struct port *port)
{
	return port->fd < 0 && now_ms() >= port->next && find_node(port);
}

void port_wants(
	struct port *port, struct loop *loop, short events, void (*ready)(void *self), void *self)
{
	if (port->fd < 0 || port->hung)
		loop_until(loop, port->next);
	else if (events)
		loop_want(loop, port->fd, events, ready, self);
}

/* A host that comes sends SIGIO; one that is there has no need to, with each byte. */
static void want_signal(const struct port *port, bool on)
{
	int flags = fcntl(port->fd, F_GETFL);

	fcntl(port->fd, F_SETOWN, getpid());
	fcntl(port->fd, F_SETFL, on ? flags | O_ASYNC : flags & ~O_ASYNC);
}

static void hang_up(struct port *port)
{
	if (port->socket)
		exit(0);
	if (!port->hung)
		want_signal(port, true);
	port->hung = true;
	port->next = now_ms() + HUNG_MS;
}

static void close_gone(struct port *port)
{
	if (port->socket)
		exit(0);
	close(port->fd);
	*port = (struct port){ .fd = -1, .next = now_ms() + RETRY_MS };
}

size_t port_read(struct port *port, uint8_t *space, size_t size)
{
	bool was_hung = port->hung;
	ssize_t n;

	if (port->fd < 0)
		return 0;
	n = read(port->fd, space, size);
	if (n == 0) {
		hang_up(port);
		/* The host may have come before the signal was asked for. */
		n = was_hung ? 0 : read(port->fd, space, size);
	}
	if (n == 0)
		return 0;
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		close_gone(port);
		return 0;
	}
	if (port->hung)
		want_signal(port, false);
	port->hung = false;
	return n < 0 ? 0 : (size_t)n;
}

size_t port_write(struct port *port, struct bytes data)
{
	ssize_t n;

	if (port->fd < 0 || !data.len)
		return 0;
	n = write(port->fd, data.data, data.len < WRITE_MAX ? data.len : WRITE_MAX);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		close_gone(port);
	return n < 0 ? 0 : (size_t)n;
}
