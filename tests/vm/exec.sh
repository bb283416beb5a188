#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317,SC2016 # the checks are called by name; guests expand their own variables
# A command in a new machine: what it gets, what it gives back.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
requires_image mini

streams_stay_apart() {
	local status=0
	pexec -- sh -c 'echo out; echo err >&2; exit 3' >"$work/out" 2>"$work/err" || status=$?
	same "$status" 3 && same "$(cat "$work/out")" out && same "$(cat "$work/err")" err
}

arguments_are_exact() {
	local got wanted
	got=$(pexec -- sh -c 'for a; do printf "<%s>" "$a"; done' sh '' ' two  spaces ' $'line\nbreak' \
		"'" '"' '$HOME' '*' "\\" $'\xc3\xa9')
	wanted=$'<>< two  spaces ><line\nbreak><\'><"><$HOME><*><\\><\xc3\xa9>'
	same "$got" "$wanted"
}

environment_and_directory() {
	local got
	got=$(pexec -w /proc/1 -e 'A=b c' -e TERM=xterm -- sh -c 'pwd; env | sort | grep -E "^(A|HOME|TERM|USER)="')
	same "$got" $'/proc/1\nA=b c\nHOME=/root\nTERM=xterm\nUSER=root'
}

stdin_is_empty() {
	same "$(echo hello | pexec -- sh -c 'cat; echo end')" end
}

signal_is_told() {
	local status=0
	pexec -- sh -c 'kill -9 $$' || status=$?
	same "$status" 137
}

missing_program() {
	local status=0
	pexec -- /no/such/program 2>"$work/err" || status=$?
	same "$status" 127 && same "$(cat "$work/err")" \
		"postern exec: /no/such/program: not found in the guest (image mini)"
}

shell_line() {
	local status=0
	pexec -- 'ls -l /' 2>"$work/err" || status=$?
	same "$status" 127 && contains "$(cat "$work/err")" "; for a shell line use: sh -c '…'"
}

missing_directory() {
	local status=0
	pexec -w /nonexist -- true 2>"$work/err" || status=$?
	same "$status" 125 && same "$(cat "$work/err")" "postern exec: -w /nonexist: no such directory in the guest"
}

not_executable() {
	local status=0
	pexec -- /etc/passwd 2>"$work/err" || status=$?
	same "$status" 126 && same "$(cat "$work/err")" \
		"postern exec: /etc/passwd: can't be executed in the guest: Permission denied"
}

time_limit() {
	local status=0
	pexec -t 0.5 -- sleep 1000 2>"$work/err" || status=$?
	same "$status" 124 && contains "$(cat "$work/err")" "ended after 0.5 s"
}

power_off_is_told() {
	local status=0
	pexec -- sh -c 'echo o >/proc/sysrq-trigger; sleep 1000' 2>"$work/err" || status=$?
	same "$status" 125 && contains "$(cat "$work/err")" "the guest powered off"
}

panic_is_told() {
	local status=0
	pexec -- sh -c 'echo c >/proc/sysrq-trigger; sleep 1000' 2>"$work/err" || status=$?
	same "$status" 125 && contains "$(cat "$work/err")" "sysrq triggered crash"
}

check "stdout, stderr and exit code" streams_stay_apart
check "arguments arrive exactly as given" arguments_are_exact
check "environment and directory" environment_and_directory
check "stdin is empty" stdin_is_empty
check "128+N for a signal" signal_is_told
check "127 for a missing program" missing_program
check "a shell line without a shell" shell_line
check "125 for a missing directory" missing_directory
check "126 for a file that is no program" not_executable
check "124 after -t" time_limit
check "a power-off is told" power_off_is_told
check "a panic is told" panic_is_told
finish
