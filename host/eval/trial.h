/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attempt of one model at one scenario, from boot to verdict, in a process of its own.
 *
 * How it works. Begin with a broken machine (begin.h), let the model work, freeze. What the model
 * left is then judged twice: live, in the same machine, whose writes go to a layer that
 * nobody reads; and after a cold boot of a copy. What the guest does to itself ends in a verdict
 * "fail"; what only the host can do wrong ends in "unscored".
 */
#ifndef TRIAL_H
#define TRIAL_H

#include <stdint.h>

#include "machine/accel.h"
#include "machine/image.h"
#include "scenario.h"

enum model_kind {
	MODEL_NOTHING,	/* nobody does anything */
	MODEL_SOLUTION, /* the scenario's fix.sh */
	MODEL_SCRIPT,	/* a script of the user */
	MODEL_SERVER,	/* a model behind an URL */
};

struct model {
	enum model_kind kind;
	const char *given; /* as the user named it */
	const char *url, *key;
	const char *script; /* its text */
};

/* All is borrowed. */
struct trial_spec {
	const struct scenario *scenario;
	const struct image *image;
	const struct model *model;
	int number; /* from 1 */
	int turns;
	int64_t time_ms; /* for the model */
	enum accel accel;
	const char *folder; /* of the trial, made here */
	int progress;	    /* a line for people per step goes there */
};

enum trial_exit {
	TRIAL_DONE = 0,	       /* trial.json is there */
	TRIAL_FAILED = 1,      /* it could not be recorded: the reason is on the progress pipe */
	TRIAL_INTERRUPTED = 2, /* no trial.json */
};

/* Runs it; the process ends afterwards. Catches SIGINT and SIGTERM. */
enum trial_exit trial_run(const struct trial_spec *spec);

#endif
