/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cable between a session and the socket of a QEMU, which a test can cut, stall and listen to.
 *
 * It is a source of the loop and passes bytes on both ways. Cut, it is closed on both sides at once
 * and what was under way in it is lost, as if the host program had been killed.
 */
#ifndef WIRE_H_OF_TESTS
#define WIRE_H_OF_TESTS

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "frame.h"

#define WIRE_UNCUT UINT64_MAX

struct wire_queue {
	size_t at, len;
	uint8_t data[65536];
};

struct wire {
	struct loop *loop;
	struct source host, guest;
	struct wire_queue to_guest, to_host;
	uint64_t left;	   /* bytes until it is cut, both ways together */
	bool stalled;	   /* takes nothing from the guest */
	struct inbox sent; /* what the host said, read along */
	uint32_t tag;	   /* of its last frame that had one */
	unsigned frames;   /* that it sent */
	unsigned hellos;   /* among them */
};

/* Takes guest, the socket to QEMU, non-blocking; borrows the loop. */
struct wire *wire_new(struct loop *loop, int guest);
/* NULL is fine. */
void wire_free(struct wire *w);
/* A new end for a session, owned by the caller, and non-blocking. The one before is let go; what
 * the guest said and nobody read comes out of the new one. */
int wire_end(struct wire *w);
void wire_cut(struct wire *w);
bool wire_is_cut(const struct wire *w);
/* Everything the host wrote is in QEMU's socket. */
bool wire_is_through(const struct wire *w);

#endif
