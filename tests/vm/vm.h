/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one VM of a test, started as the product starts it, except that its channel is a listening
 * socket, as under libvirt: the host can go and come back.
 *
 * What can't be done ends the test. Deadlines are given for a fast host and scaled by the
 * accelerator.
 */
#ifndef VM_H
#define VM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "link/session.h"
#include "machine/image.h"
#include "wire.h"

#define VM_LONG 60000 /* ms: for what takes as long as a boot */

struct vm_spec {
	const char *image;
	const char *init; /* text of a script that is PID 1 in the place of the agent. NULL: none */
	int memory_mib;	  /* 0: the image's */
	bool snapshots;	  /* there is room for those of vm_save */
};

extern struct vm {
	struct loop loop;
	struct image image;
	char dir[32]; /* for scratch files */
	struct process *qemu;
	struct qmp *qmp;
	struct console *console, *words;
	struct wire *wire; /* NULL: nothing is connected */
	struct session *session;
	unsigned resets; /* of the machine, by the guest */
	unsigned wedged; /* attaches that the guest did not answer, so that a second was needed */
	struct err err;
} vm;

/* Boots it, connects, and waits for the guest's answer. Skips the test without the image. */
void vm_start(const struct vm_spec *spec);
/* Waits until the image's system is up. */
void vm_wait_ready(void);
void vm_stop(void);

/* That many milliseconds from now, and more where guests are emulated. */
int64_t vm_in(int64_t ms);
/* How often a test goes round: few, times $ROUNDS. */
unsigned vm_rounds(unsigned few);
/* The same for a test with a number of its own for $ROUNDS = 10. */
unsigned vm_rounds_of(unsigned few, unsigned many);
/* The seed of this test's random numbers: $SEED, or a new one; it is printed. */
uint64_t vm_seed(void);
/* The next one of a row that a seed begins. */
uint64_t vm_random(uint64_t *state);

/* Connects to QEMU's socket. Returns owned. */
int vm_connect(void);
/* Closes the connection as a killed host would. */
void vm_detach(void);
/* Connects, attaches the session again, and waits for the guest's answer. Where none comes it does
 * so once more, as every owner of such a socket must. */
void vm_attach(void);
/* Attaches through a wire that is cut after so many bytes; waits for an answer or the cut. */
void vm_attach_briefly(uint64_t bytes);
/* Like vm_attach for a session of a host without memory, with an epoch of its own, in the place of
 * the present one; on the connection that is there if it is to be kept. */
void vm_renew(bool keep_connection);
/* The same where it may fail: false when no answer came to the second attach either. */
bool vm_try_renew(bool keep_connection);

/* A command of the control socket without arguments. */
void vm_control(const char *command);
/* A line for QEMU's own monitor. What that says is borrowed until the next one. */
const char *vm_monitor(const char *line);
/* The state of the whole machine, for a vm_spec with snapshots. */
void vm_save(const char *tag);
void vm_load(const char *tag);

/* What went wrong, and what QEMU and the console said last, as TAP comments. */
void vm_tell(const char *what);
/* Turns the loop until then. */
void vm_until(bool (*done)(const void *arg), const void *arg, int64_t ms, const char *what);

/* A shell command in the guest, from start to end. Its output is borrowed until the next one. */
struct command_result vm_shell(const char *text, const char **ret_output);
/* It must succeed and print exactly this. */
void vm_says(const char *text, const char *wanted);
/* A number that it prints. */
unsigned long long vm_number(const char *text);
void vm_ping(int64_t ms);

/* A command that runs while the test does something else. Its output is counted and dropped, but
 * for the beginning. */
struct vm_task {
	struct command *command;
	uint64_t bytes;
	struct buf head;
};
struct vm_task *vm_task(const char *text);
/* Waits until so many bytes have come. */
void vm_task_bytes(struct vm_task *t, uint64_t bytes);
/* Waits for its end. The result is borrowed until vm_task_free. */
const struct command_result *vm_task_end(struct vm_task *t);
void vm_task_free(struct vm_task *t);

#endif
