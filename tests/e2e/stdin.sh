#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317,SC2016 # the checks are called by name; guests expand their own variables
# Standard input on its way into a machine, and whose command it is.
set -u
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# into ARG...: postern exec --stdin
into() {
	timeout --kill-after=10 300 "$POSTERN" exec --stdin "$@"
}

same() {				# same GOT WANTED
	[ "$1" = "$2" ] && return
	printf 'got: %q\nwanted: %q\n' "$1" "$2"
	return 1
}

large() {
	head -c 100000000 /dev/urandom >"$work/large"
	same "$(head -c 100000000 "$work/large" | into -- sha256sum)" "$(sha256sum <"$work/large")"
}

# From a file, and back.
there_and_back() {
	head -c 5000000 "$work/large" >"$work/some"
	into -- cat <"$work/some" >"$work/back" && cmp "$work/back" "$work/some"
}

empty() {
	same "$(: | into -- wc -c)" 0
}

closed() {
	same "$(into -- wc -c <&-)" 0
}

not_asked_for() {
	same "$(printf 'a\nb\n' | { "$POSTERN" exec -- cat; cat; })" $'a\nb'
}

# A pipe that other processes have too is left as it was.
shared() {
	local before
	mkfifo "$work/fifo"
	exec 3<>"$work/fifo"
	before=$(grep ^flags "/proc/$BASHPID/fdinfo/3")
	into -- true <&3
	same "$(grep ^flags "/proc/$BASHPID/fdinfo/3")" "$before"
}

takes_some() {
	same "$(yes | into -- head -n 1)" y
}

never_reads() {
	local status=0 pid
	timeout --foreground 300 "$POSTERN" exec --stdin -- sh -c 'echo begun; exec sleep 1000' \
		< <(yes) >"$work/out" &
	pid=$!
	wait_line "$work/out" begun $pid
	pkill -INT -P $pid postern
	wait $pid || status=$?
	same "$status" 130
}

directory() {
	local status=0
	into -- cat </ 2>"$work/err" || status=$?
	same "$status" 125 && has "$work/err" "postern exec: reading the input: Is a directory"
}

ended_before() {
	same "$(printf 'exit 3\necho more\n' | into -- sh; echo $?)" 3
}

named() {
	same "$(into -u nobody -- sh -c 'id -u; id -g; echo "${HOME-none}"' </dev/null)" $'65534\n65534\nnone'
}

numbered() {
	same "$(into -u 65534 -e HOME=/tmp -- sh -c 'id -un; echo "$HOME"' </dev/null)" $'nobody\n/tmp'
}

unknown() {
	local status=0
	into -u nosuch -- true 2>"$work/err" </dev/null || status=$?
	same "$status" 125 && has "$work/err" "postern exec: -u nosuch: there is no such user in the guest (image mini)"
}

ok "100 MB arrive" large
ok "a file goes there and comes back" there_and_back
ok "nothing at all" empty
ok "a closed standard input is empty" closed
ok "without --stdin nothing is read" not_asked_for
ok "a shared pipe stays as it is" shared
ok "a command that reads a little ends" takes_some
ok "a command that reads nothing can be interrupted" never_reads
ok "a folder can't be read" directory
ok "input that comes after the end is not missed" ended_before
ok "a user by name" named
ok "a user by number" numbered
ok "a user that is not there" unknown
finish
