/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands in the machine, one after the other, through reboots to whatever end.
 *
 * How it works. A command is waited for with a ping now and then, so that a guest that is gone is
 * told from one that is slow. When the guest starts anew, or a command looks as if it asked for
 * that and the system is stopping, the shell waits until the machine is up again or off, and says
 * so. After SHELL_OFF and SHELL_CLOSED no command runs any more, and why tells what happened.
 */
#ifndef SHELL_H
#define SHELL_H

#include <stdint.h>

#include "base/buf.h"
#include "base/loop.h"
#include "capture.h"
#include "machine/machine.h"
#include "model/talk.h"
#include "record.h"

struct shell {
	struct loop *loop; /* these three are borrowed */
	struct machine *machine;
	struct record *record;
	int factor;	    /* of the accelerator, for time limits */
	int64_t until;	    /* on clock_ms(): no command runs longer than this */
	unsigned greetings; /* of the session, when we last looked */
	int count;	    /* commands so far */
	char why[512];	    /* one sentence, when the machine is lost */
	struct command_result last;
};

void shell_init(struct shell *sh, struct loop *loop, struct machine *machine, struct record *record,
	int factor, int64_t until);

/* A command of the model: sh -c COMMAND. Adds what the model may see of it to out. */
enum shell_end shell_command(struct shell *sh, const char *command, int64_t timeout_s,
	size_t max_output, struct buf *out, struct err *err);
/* A script as root: sh -eu -c TEXT, until sh->until. */
enum shell_end shell_script(
	struct shell *sh, const char *text, size_t max_output, struct buf *out, struct err *err);

/* The environment of commands and scripts; NULL-ended. */
extern const char *const shell_env[];

#endif
