# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests of `postern run`; to be sourced. Makes $work, which goes away at the end.

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
top=$(readlink -f "$here/../..")
POSTERN=${POSTERN:-$top/build/postern}
# shellcheck disable=SC2034 # for the tests
scenarios=$top/scenarios
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0 failures=0

# ok NAME COMMAND...: one line of TAP; what the command prints becomes diagnostics when it fails.
ok() {
	local name=$1 output
	shift
	count=$((count + 1))
	if output=$("$@" 2>&1); then
		echo "ok $count - $name"
	else
		failures=$((failures + 1))
		echo "not ok $count - $name"
		printf '%s\n' "$output" | sed 's/^/# /'
	fi
}

# finish: the plan, and the exit code of the test.
finish() {
	echo "1..$count"
	[ $failures = 0 ]
}

# field FILE JQ-EXPRESSION WANTED: what a JSON file holds.
field() {
	local got
	got=$(jq -r "$2" "$1") || return
	[ "$got" = "$3" ] || {
		echo "$1: $2 is: $got"
		echo "wanted: $3"
		return 1
	}
}

# has FILE TEXT: the file holds this text.
has() {
	grep -qF -- "$2" "$1" || {
		echo "not in $1: $2"
		tail -n 20 "$1"
		return 1
	}
}

# wait_line FILE TEXT PID: until a line holds the text; fails when the process ends before.
wait_line() {
	tail -n +1 -F --pid="$3" "$1" 2>/dev/null | grep -qm 1 -F -- "$2"
}

# no_machine DIR: no QEMU has a file open below this folder.
no_machine() {
	! pgrep -af "qemu-system.*$1"
}
