/* SPDX-License-Identifier: Apache-2.0 */
/* Definition of the tool, and checks of its arguments. */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"

#define NAME	    "exec_shell_command"
#define TIMEOUT	    10
#define TIMEOUT_MAX 60
#define OUTPUT_MAX  16384

static void add_property(
	struct json *properties, const char *name, const char *type, const char *description)
{
	struct json *p = json_set(properties, name, json_object());

	json_set_str(p, "type", type);
	json_set_str(p, "description", description);
}

struct json *tool_list(void)
{
	struct json *list = json_array();
	struct json *tool = json_add(list, json_object());
	struct json *function, *parameters, *properties;

	json_set_str(tool, "type", "function");
	function = json_set(tool, "function", json_object());
	json_set_str(function, "name", NAME);
	json_set_str(function, "description",
		"Runs a shell command on the server as root and returns its output and exit code.");
	parameters = json_set(function, "parameters", json_object());
	json_set_str(parameters, "type", "object");
	properties = json_set(parameters, "properties", json_object());
	add_property(properties, "command", "string", "The command, for sh -c");
	add_property(properties, "timeout", "integer", "Seconds, 10 by default, at most 60");
	add_property(properties, "max_output_size", "integer",
		"Bytes of output to return, 16384 by default and at most");
	json_add(json_set(parameters, "required", json_array()), json_string("command"));
	return list;
}

/* A number, or a string that is one; anything else counts as absent. */
static int64_t number_or(
	const struct json *arguments, const char *key, int64_t otherwise, int64_t max)
{
	const char *text = json_get_str(arguments, key);
	int64_t n = json_get_int(arguments, key, otherwise);

	if (text) {
		char *end;

		errno = 0;
		n = strtoll(text, &end, 10);
		if (errno || end == text || *end)
			n = otherwise;
	}
	if (n < 1)
		n = otherwise;
	return n > max ? max : n;
}

bool tool_check(const char *untrusted_name, const struct json *untrusted_arguments,
	struct tool_command *ret, struct buf *problem)
{
	const char *command = json_get_str(untrusted_arguments, "command");
	char shown[120];

	if (strcmp(untrusted_name, NAME) != 0) {
		output_line(untrusted_name, shown, sizeof(shown));
		buf_printf(problem, "Not run: there is no tool \"%s\". The only tool is " NAME ".",
			shown);
		return false;
	}
	if (!command || !*command) {
		buf_str(problem,
			"Not run: \"command\" must be a string that is not empty. Call " NAME
			" again with the command in it.");
		return false;
	}
	ret->command = command;
	ret->timeout_s = number_or(untrusted_arguments, "timeout", TIMEOUT, TIMEOUT_MAX);
	ret->max_output =
		(size_t)number_or(untrusted_arguments, "max_output_size", OUTPUT_MAX, OUTPUT_MAX);
	return true;
}
