/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel: a virtio port found by its name, or an inherited socket.
 *
 * How it works. A port without a host reads as end of file and polls as hung up for ever, so while
 * `hung` it is not polled: SIGIO tells of a host that comes, and a short wait makes up for a lost
 * one. Nothing is ever thrown away because of a hang-up, and the port is never closed but when the
 * device is gone.
 */
#ifndef PORT_H
#define PORT_H

#include "loop.h"
#include "wire.h"

struct port {
	int fd;	       /* -1: not there yet */
	bool socket;   /* end of file is the end of the agent */
	bool hung;     /* no host */
	bool taken;    /* another program held it when we looked for it */
	uint64_t next; /* when to look again, while not there or hung */
};

/* fd is an inherited socket, or -1: the port has to be found. */
void port_init(struct port *port, int fd);

/* Looks for the port when it is time to. True: it has just been opened. */
bool port_find(struct port *port);

/* What to be woken for. */
void port_wants(
	struct port *port, struct loop *loop, short events, void (*ready)(void *self), void *self);

/* Bytes read or written; 0: not now. */
size_t port_read(struct port *port, uint8_t *space, size_t size);
size_t port_write(struct port *port, struct bytes data);

#endif
