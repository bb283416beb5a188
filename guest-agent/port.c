/* SPDX-License-Identifier: Apache-2.0 */
/* Find the port, live through hang-ups and unplugging. */
#include "port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "kernfs.h"
#include "limits.h"

#define CLASS	    "/sys/class/virtio-ports"
#define NODE	    "/port" /* in our own root: the system's /dev may lose its nodes */
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

/* Opens a port of the class, if it is ours. The name appears some time after the port. */
static int open_if_ours(int class, const char *entry)
{
	char path[NAME_LENGTH + 8], text[64], *minor;
	unsigned long major;
	dev_t device;

	(void)snprintf(path, sizeof(path), "%.*s/name", NAME_LENGTH, entry);
	if (!kernfs_read(class, path, text, sizeof(text)) || strcmp(text, PORT_NAME) != 0)
		return -1;
	(void)snprintf(path, sizeof(path), "%.*s/dev", NAME_LENGTH, entry);
	if (!kernfs_read(class, path, text, sizeof(text)))
		return -1;
	major = strtoul(text, &minor, 10);
	if (*minor != ':')
		return -1;
	device = makedev((unsigned)major, (unsigned)strtoul(minor + 1, NULL, 10));
	(void)unlink(NODE);
	if (mknod(NODE, S_IFCHR | 0600, device) < 0)
		return -1;
	return open(NODE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
}

bool port_find(struct port *port)
{
	struct listing list = { .fd = -1 };
	const char *entry;

	if (port->fd >= 0 || now_ms() < port->next)
		return false;
	port->next = now_ms() + RETRY_MS;
	list.fd = open(CLASS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (list.fd < 0)
		return false;
	while (port->fd < 0 && (entry = listing_next(&list)))
		port->fd = open_if_ours(list.fd, entry);
	close(list.fd);
	port->hung = false;
	return port->fd >= 0;
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
