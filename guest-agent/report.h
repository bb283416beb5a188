/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a child tells the agent, record by record, on a socket of its own. The socket ends when the
 * child becomes the program that was asked for, or ends itself.
 */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "messages.h"

enum report_about {
	REPORT_FAILED = 1,   /* it could not do what was asked */
	REPORT_TERMINAL = 2, /* the master side of its terminal comes along */
	REPORT_DONE = 3,     /* the transfer went well */
};

struct report {
	enum report_about about;
	enum fail_kind kind;
	int error;	     /* errno */
	uint64_t entries;    /* of a transfer */
	char text[TEXT_MAX]; /* why it failed; empty: what errno says */
};

/* Two ends that close at exec; ours does not block. False with errno. */
bool report_pair(int *ret_ours, int *ret_theirs);

/* fd goes along with it, -1: none. */
void report_send(int socket, const struct report *report, int fd);

enum report_state { REPORT_WAIT, REPORT_READ, REPORT_END };

/* ret_fd is what came along, -1: nothing. */
enum report_state report_receive(int socket, struct report *ret_report, int *ret_fd);

#endif
