/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one poll loop of a process.
 *
 * How it works. A source is a descriptor, a question and an answer: before each poll the loop asks
 * wants() which events it would like now and due() when it must be called at the latest; nothing
 * else is registered, so nothing can be forgotten. A source may be added or removed at any time,
 * also from within a callback. Straight-line code waits with loop_until for a condition; all other
 * sources go on living meanwhile.
 *
 * SIGINT, SIGTERM, SIGQUIT and SIGHUP end every wait with ERR_INTERRUPTED once the loop catches
 * them.
 */
#ifndef LOOP_H
#define LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "err.h"

#define LOOP_SOURCES 80

struct source {
	int fd;					 /* -1: only a time */
	short (*wants)(const void *self);	 /* events of poll(), 0: none now */
	int64_t (*due)(const void *self);	 /* on clock_ms(), or CLOCK_NEVER. NULL: never */
	void (*ready)(void *self, short events); /* events 0: it is due */
	void *self;
};

struct loop {
	struct source *sources[LOOP_SOURCES];
	int signals;	  /* signalfd, or -1 */
	bool interrupted; /* the user asked to stop */
	int signal;	  /* by this one */
};

/* catch_signals: block SIGINT, SIGTERM, SIGQUIT and SIGHUP and take them through the loop; a SIGHUP
 * that was ignored (nohup) stays ignored. */
bool loop_init(struct loop *loop, bool catch_signals, struct err *err);
void loop_release(struct loop *loop);

/* Borrows the source until loop_remove. Removing one that is not there is fine. */
void loop_add(struct loop *loop, struct source *source);
void loop_remove(struct loop *loop, const struct source *source);

/*
 * Turns until done(arg). ERR_TIME when deadline (on clock_ms(), or CLOCK_NEVER) passes first,
 * ERR_INTERRUPTED when the user asked to stop.
 */
bool loop_until(struct loop *loop, bool (*done)(const void *arg), const void *arg, int64_t deadline,
	struct err *err) __attribute__((warn_unused_result));

/* Turns for that long. False when the user asked to stop, or the host failed. */
bool loop_pause(struct loop *loop, int64_t ms, struct err *err);

#endif
