# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Helpers of the tests that boot machines: TAP, prerequisites, a scratch folder, waits with deadlines.
#
# A test program sources this, calls `check NAME FUNCTION` for each behaviour, and ends with `finish`.
# A function holds when it returns 0; what it prints becomes TAP comments.
set -u

: "${POSTERN:=$PWD/build/postern}"
number=0 failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export work POSTERN

skip_all() {				# skip_all REASON
	echo "1..0 # SKIP $1"
	echo "$1"
	exit 77
}

requires_program() {			# requires_program NAME
	command -v "$1" >/dev/null || skip_all "the program $1 is missing"
}

# The image has its template then, so no later machine says that it makes one.
requires_image() {			# requires_image NAME
	"$POSTERN" doctor --json | grep -A1 "\"image $1\"" | grep -q '"ok"' ||
		skip_all "the image $1 is not built"
	pexec -i "$1" -- true 2>/dev/null
}

# From here on, a home with the same images and no templates.
own_home() {
	local images
	images=$(readlink -f "${POSTERN_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/postern}/images")
	POSTERN_HOME=$(mktemp -d "$work/home.XXXXXX")
	ln -s "$images" "$POSTERN_HOME/images"
	export POSTERN_HOME
}

check() {				# check NAME FUNCTION
	local said status=0
	number=$((number + 1))
	said=$("$2" 2>&1) || status=$?
	[ -z "$said" ] || echo "# ${said//$'\n'/$'\n'# }"
	if [ "$status" = 0 ]; then
		echo "ok $number - $1"
	else
		echo "not ok $number - $1"
		failures=$((failures + 1))
	fi
}

finish() {
	echo "1..$number"
	[ "$failures" = 0 ]
	exit
}

same() {				# same GOT WANTED
	[ "$1" = "$2" ] && return
	printf 'got: %q\nwanted: %q\n' "$1" "$2"
	return 1
}

contains() {				# contains TEXT PART
	[[ $1 == *"$2"* ]] && return
	printf '%q\nis not in: %q\n' "$2" "$1"
	return 1
}

# Every machine of a test gets this long for all of its life.
pexec() {
	timeout --kill-after=10 240 "$POSTERN" exec "$@"
}

gone() {				# gone PID SECONDS: it ends within that time
	timeout "$2" tail --pid="$1" -f /dev/null
}

# Puts a qemu-system-x86_64 first in PATH that runs the given shell text; $real is the real one.
# Templates depend on QEMU, so its machines have a home of their own.
fake_qemu() {				# fake_qemu TEXT
	local real
	real=$(command -v qemu-system-x86_64)
	mkdir -p "$work/bin"
	printf '#!/bin/bash\nreal=%q\n%s\n' "$real" "$1" >"$work/bin/qemu-system-x86_64"
	chmod +x "$work/bin/qemu-system-x86_64"
	PATH=$work/bin:$PATH
	own_home
}

# For tests of machines with names: a home of its own with the templates that are there, and nothing left.
named_machines() {
	local templates
	own_home
	templates=$(readlink -f "$(dirname "$(readlink -f "$POSTERN_HOME/images")")/templates")
	cp -a --sparse=always "$templates" "$POSTERN_HOME/templates"
	# shellcheck disable=SC2034 # for the tests
	machines=$POSTERN_HOME/machines
	trap '"$POSTERN" down --all >/dev/null 2>&1; rm -rf "$work"' EXIT
}

p() {
	timeout --kill-after=10 400 "$POSTERN" "$@"
}

# Runs a command of postern that must fail: fails STATUS SENTENCE ARGUMENT...
fails() {
	local wanted=$1 sentence=$2 status=0
	shift 2
	p "$@" >"$work/out" 2>"$work/err" || status=$?
	same "$status" "$wanted" && contains "$(cat "$work/err")" "$sentence"
}

# state NAME: as postern ls has it, and why
state() {
	p ls --json | jq -r --arg name "$1" '.machines[] | select(.name == $name) | "\(.state): \(.why)"'
}

# Also of one that starts.
keeper_of() {
	p ls --json | jq -e ".machines[] | select(.name == \"$1\").keeper"
}
qemu_of() {
	pgrep -P "$(keeper_of "$1")" qemu-system
}

# until_so SECONDS COMMAND...: it holds within that time
until_so() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return
		read -r -t 0.2 <> <(:) || true
	done
}

is_state() { [[ $(state "$1") == "$2"* ]]; }
# runs_operations NAME COUNT
runs_operations() { [ "$(p ls --json | jq ".machines[] | select(.name == \"$1\").operations")" = "$2" ]; }
nothing_runs() { runs_operations "$1" 0; }
