/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict of a trial, from what its machine did and what its checks said. Pure. */
#ifndef GRADE_H
#define GRADE_H

#include "base/json.h"
#include "stage.h"

enum verdict { VERDICT_PASS, VERDICT_FAIL, VERDICT_UNSCORED };
const char *verdict_name(enum verdict verdict); /* "pass", "fail", "unscored" */

/* Zeroed to begin with; filled as the trial goes on. */
struct grade {
	char unscored[512]; /* a cause that no guest can make; "": none */
	char lost[512];	    /* how the machine was lost before the live check; "": it was not */
	struct stage live, boot;

	enum verdict verdict; /* by grade_judge */
	char reason[512];     /* "" for a pass */
};

void grade_judge(struct grade *grade);
/* Returns owned: what grade.json holds. */
struct json *grade_json(const struct grade *grade);
void grade_release(struct grade *grade);

#endif
