#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317,SC2016 # the checks are called by name; guests expand their own variables
# What goes wrong on the host is told in one sentence with cause and remedy.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
requires_image mini

# fails_with STATUS PART ARGUMENT...
fails_with() {
	local status=0 wanted=$1 part=$2
	shift 2
	pexec "$@" >"$work/out" 2>"$work/err" || status=$?
	# That a template is being made is no failure.
	sed -i -E '/: making (a|the) template of /d' "$work/err"
	same "$status" "$wanted" && same "$(wc -l <"$work/err")" 1 && contains "$(cat "$work/err")" "$part"
}

missing_image() {
	fails_with 125 'there is no image nosuch' -i nosuch -- true &&
		POSTERN_HOME=$work/none fails_with 125 'make images' -i nosuch -- true
}

missing_qemu() {
	local timeout
	timeout=$(command -v timeout)
	mkdir "$work/empty"
	pexec() { PATH=$work/empty "$timeout" 60 "$POSTERN" exec "$@"; }
	fails_with 125 'install the package qemu-system-x86' -- true
}

qemu_that_dies() {
	fake_qemu 'echo "qemu: something is wrong" >&2; exit 1'
	fails_with 125 'QEMU ended with status 1 and said: qemu: something is wrong' -- true
}

qemu_that_is_killed() {
	fake_qemu 'kill -9 $$'
	fails_with 125 'QEMU was killed by signal 9' -- true
}

qemu_that_hangs() {
	fake_qemu 'exec sleep 100000'
	fails_with 125 'QEMU was started and does not answer' -- true
}

wrong_option() {
	fails_with 125 'unknown option --image; see postern exec --help' --image mini -- true &&
		fails_with 125 'unknown option -x;' -x -- true
}

wrong_value() {
	fails_with 125 '-i needs a value;' -i &&
		fails_with 125 "-e 'FOO': want NAME=VALUE;" -e FOO -- true &&
		fails_with 125 "-w 'tmp': want an absolute path of the guest;" -w tmp -- true
}

check "a missing image" missing_image
check "a missing QEMU" missing_qemu
check "a QEMU that dies with a message" qemu_that_dies
check "a QEMU that is killed" qemu_that_is_killed
check "a QEMU that hangs" qemu_that_hangs
check "an option that is not there" wrong_option
check "an option without its value" wrong_value
finish
