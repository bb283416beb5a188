#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317,SC2016 # the checks are called by name; guests expand their own variables
# However postern ends, no machine and no file of it stays.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
requires_image mini
requires_program pgrep

leftovers() {
	find "${POSTERN_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/postern}/machines" -mindepth 1 2>/dev/null | sort
}

# Starts a machine whose command runs for ever; sets postern and qemu once it does.
start_machine() {
	mkfifo "$work/up.$1"
	"$POSTERN" exec -- sh -c 'echo up; sleep 100000' >"$work/up.$1" 2>"$work/err" &
	postern=$!
	exec 4<"$work/up.$1"
	read -r -t 240 _ <&4 || return
	qemu=$(pgrep -P "$postern" qemu-system)
	[ -n "$qemu" ]
}

# ends_by SIGNAL STATUS
ends_by() {
	local before status=0
	before=$(leftovers)
	start_machine "$1" || return
	kill -"$1" "$postern"
	gone "$postern" 20 || return
	wait "$postern" || status=$?
	gone "$qemu" 20 || return
	exec 4<&-
	same "$status" "$2" && same "$(leftovers)" "$before"
}

by_int() { ends_by INT 130; }
by_term() { ends_by TERM 143; }
by_hup() { ends_by HUP 129; }
by_kill() { ends_by KILL 137; }

while_booting() {
	local before status=0 qemu
	fake_qemu 'exec sleep 100000'
	before=$(leftovers)
	"$POSTERN" exec -- true &
	postern=$!
	until qemu=$(pgrep -P "$postern" sleep); do
		kill -0 "$postern" || return
	done
	kill -INT "$postern"
	gone "$postern" 20 || return
	wait "$postern" || status=$?
	gone "$qemu" 20 || return
	same "$status" 130 && same "$(leftovers)" "$before"
}

# The agent of a disk's system is a process like others: root in the guest can kill it.
agent_is_killed() {
	local status=0
	pexec -i server -- sh -c 'kill -9 -1; sleep 100000' 2>"$work/err" || status=$?
	same "$status" 125 && contains "$(cat "$work/err")" 'the guest answers no more: the machine runs'
}

# Nobody reads for longer than the command and its lateness may take: all of it comes all the same.
slow_reader() {
	local status=0 bytes
	mkfifo "$work/slow"
	pexec -t 1 -- head -c 2000000 /dev/zero >"$work/slow" 2>"$work/err" &
	postern=$!
	exec 5<"$work/slow"
	! gone "$postern" 40 || return
	bytes=$(wc -c <&5)
	exec 5<&-
	wait "$postern" || status=$?
	same "$status" 124 && contains "$(cat "$work/err")" 'head was ended after 1 s' &&
		[ "$bytes" -gt 262144 ]
}

check "SIGINT" by_int
check "SIGTERM" by_term
check "SIGHUP" by_hup
check "SIGKILL" by_kill
check "SIGINT during the boot" while_booting
check "a reader that is slow" slow_reader
check "an agent that is killed" agent_is_killed
finish
