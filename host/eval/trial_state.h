/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a trial while it runs, and the trial.json that is made of it. */
#ifndef TRIAL_STATE_H
#define TRIAL_STATE_H

#include <sys/stat.h>

#include "base/loop.h"
#include "grade.h"
#include "machine/confine.h"
#include "model/talk.h"
#include "record.h"
#include "shell.h"
#include "trial.h"

enum phase_name {
	PHASE_TEMPLATE,
	PHASE_BOOT,
	PHASE_BREAK,
	PHASE_MODEL,
	PHASE_END,
	PHASE_LIVE,
	PHASE_BOOT_STAGE,
	PHASES,
};

struct trial {
	const struct trial_spec *spec;
	struct loop loop;
	struct record record;
	struct machine *machine;
	struct shell shell;
	struct talk_result talk; /* zeroed when no server was asked */
	struct grade grade;
	int factor; /* for time limits */

	const char *ended;  /* how the model's work ended; NULL: it never began */
	const char *start;  /* what the machine began as; NULL: there was none */
	char *start_reason; /* why it began as nothing better, owned; NULL: there is nothing better
			     */
	char *template;	    /* id of the scenario's template that it began from, owned; or NULL */
	char *stands_on;    /* that template's disk, owned; or NULL */
	struct stat image_disk;		/* when it began */
	struct confinement confinement; /* of the machine that it began with, once sealed */
	bool sealed, power_cut;
	bool host_failed; /* the trial stopped for a cause that no guest can make */
	struct json *started;
	int64_t phase_start;
	double seconds[PHASES];
};

/* A line for people who watch. */
void trial_say(const struct trial *t, const char *what);
/* A line of the transcript. text NULL: none. */
void trial_note(struct trial *t, const char *event, const char *text);
/* Closes the books on one phase of the trial; they add up to all of it. */
void trial_phase_ends(struct trial *t, enum phase_name phase);
/* Ends the trial: the user interrupted, or a cause that no guest can make. Always false. */
bool trial_unscored(struct trial *t, const char *doing, struct err *err);

/* Writes trial.json. The grade has been judged. */
bool trial_finish(const struct trial *t, struct err *err);

/* A trial whose worker is gone: writes what can be said. */
bool trial_write_off(const struct trial_spec *spec, const char *reason, struct err *err);

#endif
