/* SPDX-License-Identifier: Apache-2.0 */
/* A run: trials one after the other, each in a worker process. */
#ifndef RUN_H
#define RUN_H

#include "trial.h"

/* All is borrowed. */
struct run_spec {
	const struct scenario *scenarios;
	const struct image *images; /* of each scenario */
	size_t scenarios_len;
	struct model model;
	int trials;	/* of each scenario */
	int turns;	/* 0: the scenario's */
	int64_t time_s; /* 0: the scenario's, times the accelerator's factor */
	enum accel accel;
	const char *out; /* folder, there and empty */
};

/*
 * Returns owned: an array of what trial.json of each finished trial holds. An interruption ends the
 * run early and leaves loop->interrupted set. NULL when the host failed.
 */
struct json *run_all(struct loop *loop, const struct run_spec *spec, struct err *err);

#endif
