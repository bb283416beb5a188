#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317,SC2016 # the checks are called by name; guests expand their own variables
# Output passes exactly, at the reader's pace.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
requires_image mini

binary_is_exact() {
	local got
	got=$(pexec -- sh -c 'dd if=/dev/urandom of=/data bs=64k count=80 2>/dev/null
		sha256sum </data >&2; cat /data' 2>"$work/sum" | sha256sum)
	same "$got" "$(cat "$work/sum")"
}

# The reader takes nothing before the guest's program is stuck in its full pipe.
slow_reader_gets_all() {
	mkfifo "$work/pace"
	# shellcheck disable=SC2094 # it is a FIFO
	pexec -- sh -c 'seq 1 300000 & until grep -q pipe /proc/$!/wchan; do :; done; echo stuck >&2; wait' \
		2>"$work/pace" | { read -r _ <"$work/pace"; sha256sum; } >"$work/got"
	same "$(cat "$work/got")" "$(seq 1 300000 | sha256sum)"
}

reader_that_leaves_ends_it() {
	local status
	pexec -- yes 2>"$work/err" | head -n 1 >"$work/out"
	status=${PIPESTATUS[0]}
	same "$(cat "$work/out")" y && same "$(cat "$work/err")" "" && same "$status" 141
}

full_disk_is_told() {
	local status=0
	pexec -- echo hello >/dev/full 2>"$work/err" || status=$?
	same "$status" 125 && contains "$(cat "$work/err")" "No space left"
}

closed_output_is_told() {
	local status=0
	pexec -- echo hello >&- 2>"$work/err" || status=$?
	same "$status" 125 && contains "$(cat "$work/err")" "Bad file descriptor"
}

terminal_is_safe() {
	requires_program script
	script -qec "'$POSTERN' exec -- printf 'a\033]0;title\007b\n'" "$work/typescript" >/dev/null </dev/null
	contains "$(cat "$work/typescript")" 'a?]0;title?b'
}

check "5 MB of random bytes" binary_is_exact
check "a slow reader gets all of it" slow_reader_gets_all
check "a reader that leaves ends it quietly" reader_that_leaves_ends_it
check "output that can't be written is told" full_disk_is_told
check "a closed output is told" closed_output_is_told
check "no escape sequence reaches a terminal" terminal_is_safe
finish
