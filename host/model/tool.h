/* SPDX-License-Identifier: Apache-2.0 */
/* The tool that models are offered: exec_shell_command, with the arguments that llama.cpp has. */
#ifndef TOOL_H
#define TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"

struct tool_command {
	const char *command; /* borrowed from the arguments */
	int64_t timeout_s;
	size_t max_output;
};

/* The value of a request's "tools". Returns owned. */
struct json *tool_list(void);

/* Checks a call. When it can't be run, adds to problem what the model is to know about it. */
bool tool_check(const char *untrusted_name, const struct json *untrusted_arguments,
	struct tool_command *ret, struct buf *problem);

#endif
