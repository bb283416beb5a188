/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host end of the channel: one session after the other on one descriptor.
 *
 * How it works. The session is a source of the loop. It greets until the guest has answered with
 * the right nonce and drops everything before that. When the guest starts anew (a HELLO that
 * nobody asked for, with another boot id) the old session is over: what ran then is LOST, and the
 * session greets again by itself. Nothing the guest sends is believed before it is checked, and a
 * guest that breaks the protocol is disconnected: the session is then broken for good.
 */
#ifndef SESSION_H
#define SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "err.h"
#include "messages.h"

struct session;

/* Takes fd, a non-blocking stream socket; borrows the loop. Greets at once, in the loop. */
struct session *session_new(struct loop *loop, int fd);

/*
 * A channel that may be attached again (a listening socket of QEMU, a stream of libvirt). When it
 * ends, the session is not broken but waits without a channel; commands go on in the guest.
 * session_attach takes a new descriptor, greets with the same epoch, and asks about each command:
 * those the guest still knows go on, with what was lost on the way noted in their results, and
 * those it does not know are LOST, or started if their EXEC never came. Transfers are LOST.
 */
void session_keep(struct session *s);
/* Closes the channel, if it has not ended by itself. */
void session_detach(struct session *s);
bool session_is_attached(const struct session *s);
void session_attach(struct session *s, int fd);
/* Ends what runs and closes. NULL is fine. */
void session_free(struct session *s);

/* Waits until a greeting has been answered. ERR_PEER when the channel broke, ERR_TIME. */
bool session_wait_open(struct session *s, int64_t deadline, struct err *err);

/* Is a guest there that answered our last greeting? */
bool session_is_open(const struct session *s);
/* Why the channel is of no more use (end of file, protocol broken); NULL while it is. */
const char *session_broken(const struct session *s);
/* How often a guest has answered a greeting: more than before means that it started anew. */
unsigned session_greetings(const struct session *s);
/* Commands and transfers that have not ended in the guest, also those that were freed. */
unsigned session_operations(const struct session *s);
/* Is its disk frozen: after PREPARE, or because this is a clone? It takes commands after a HEAL. */
bool session_is_frozen(const struct session *s);
/* The boot id of the guest that answered last. */
void session_boot_id(const struct session *s, uint8_t ret_id[16]);

/* What to run. All is borrowed until command_start returns, input and self until it ended. */
struct command_spec {
	const char *const *argv; /* NULL-ended, never re-quoted */
	const char *const *env;	 /* NULL-ended NAME=value, the whole environment. NULL: empty */
	const char *user;	 /* name or number. NULL: root */
	const char *dir;	 /* NULL: / */
	bool agent_root;	 /* in the agent's own root instead of the system's */
	bool pty;		 /* on a terminal of its own; all output is then PART_STDOUT */
	uint16_t rows, columns;	 /* of the terminal */
	uint64_t output_max;	 /* bytes of each output that are wanted; 0: all */
	uint32_t deadline_ms;	 /* the guest ends it after this, 0: never */
	uint32_t grace_ms;	 /* from TERM to KILL */
	const void *input;	 /* bytes for stdin. NULL: the null device, or */
	size_t input_len;
	bool stream_input; /* stdin comes by command_input */
	/* There is room for at least 32 KiB of input: called soon after the start, and again each
	 * time that command_input took less than it was given. NULL: nobody cares. */
	void (*input_wanted)(void *self);

	/* Output as it comes. Returns how much is used up now; what is not, the callee keeps, and
	 * says command_consumed later: that is the back-pressure. NULL: all is thrown away. */
	size_t (*output)(
		void *self, enum stream_part part, const uint8_t *untrusted_data, size_t len);
	void *self;
};

enum command_end {
	COMMAND_RUNS,	   /* not ended yet */
	COMMAND_EXITED,	   /* value: its exit code */
	COMMAND_SIGNALLED, /* value: the signal's number */
	COMMAND_FAILED,	   /* it never ran: kind and text */
	COMMAND_LOST,	   /* the guest is gone or started anew: outcome unknown */
};

struct command_result {
	enum command_end end;
	int value;
	enum fail_kind kind;
	char text[TEXT_MAX + 1]; /* printable, cause of FAILED or LOST */
	bool timed_out, cancelled;
	uint64_t stdout_bytes, stderr_bytes; /* that came */
	uint64_t stdout_cut, stderr_cut;     /* beyond output_max: read and dropped by the guest */
	uint64_t output_lost;		     /* while the channel was attached again */
	uint32_t left_behind;		     /* processes of it that still run */
	unsigned listed;		     /* so many of them are named */
	struct {
		uint32_t pid;
		char name[COMM_LENGTH + 1]; /* printable */
	} left[LEFT_MAX];
};

struct command;

/* NULL when the session is not open or too many run. Owned by the caller. */
struct command *command_start(struct session *s, const struct command_spec *spec, struct err *err);
const struct command_result *command_result(const struct command *c);
void command_consumed(struct command *c, enum stream_part part, size_t len);
/* Input for a command with stream_input: takes what it has room for, up to 64 KiB that were not
 * sent yet, and says how much that was. One that has ended takes all. */
size_t command_input(struct command *c, const void *data, size_t len);
/* No more input comes. */
void command_input_end(struct command *c);
/* A signal to all its processes. One that waits to be sent is not sent twice; one that is under way
 * when the channel ends may be lost. */
void command_signal(struct command *c, int number);
/* Its terminal has another size. Without a terminal, nothing. */
void command_resize(struct command *c, uint16_t rows, uint16_t columns);
/* Asks the guest to end it; it ends with cancelled set. */
void command_cancel(struct command *c);
/* Forgets it; one that still runs is cancelled. NULL is fine. */
void command_free(struct command *c);

/* Starts, waits for the end, frees. False for want of an end by the deadline (it is then
 * cancelled), or interruption; everything a guest can cause is in the result. */
bool command_run(struct session *s, const struct command_spec *spec, int64_t deadline,
	struct command_result *ret_result, struct err *err);

/* Puts a file into the agent's own root. Whole trees: tree.h. */
bool session_put(struct session *s, const char *guest_path, unsigned mode, const void *data,
	size_t len, int64_t deadline, struct err *err);

/* Stops all streams and freezes the system's root. False with ERR_PEER when the guest can't. */
bool session_prepare(struct session *s, uint32_t freeze_ms, int64_t deadline, struct err *err);
/* New seed, new clock, thaw. */
bool session_heal(struct session *s, int64_t deadline, struct err *err);
/* What a guest that answers is busy with; checked, not believed. */
struct guest_health {
	uint64_t uptime_ms;
	double cpu, memory,
		io; /* share of the last 10 s that somebody waited for it; < 0: unknown */
	unsigned operations;
};

/* Is the guest still there? ret_health may be NULL. */
bool session_ping(
	struct session *s, int64_t deadline, struct guest_health *ret_health, struct err *err);
/* Asks for power-off, or for a reboot; no answer comes. */
bool session_poweroff(struct session *s, struct err *err);
bool session_reboot(struct session *s, struct err *err);

#endif
