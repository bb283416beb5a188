#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317,SC2016 # the checks are called by name; guests expand their own variables
# postern on a terminal: a shell in a new machine, and a terminal that is as it was however that ends.
# tests/e2e/onpty.c explains the steps. What it types is put together in the guest, so that the echo
# of a key is never taken for an answer.
set -u
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
onpty=${BUILD:-$top/build}/tests/e2e/onpty
export TERM=vt220
ulimit -c 0

# on_pty ARG...: postern on a terminal; the steps come on standard input
on_pty() {
	timeout --kill-after=10 900 "$onpty" "$POSTERN" "$@"
}

# All of a working day in one machine.
day() {
	on_pty shell <<-'END'
		expect postern shell: starting a machine from the image mini; leave it with exit or Ctrl-D
		raw
		expect #
		send echo "the answer is $((40 + 2)), on $TERM, in $PWD, $USER $LOGNAME $HOME"\r
		expect the answer is 42, on vt220, in /root, root root /root\r\n
		send echo "size $(stty size)"\r
		expect size 24 80\r\n
		size 33 101
		send until [ "$(stty size)" = "33 101" ]; do :; done; echo "re""sized"\r
		expect resized\r\n
		send sh -c 'echo "be""gun"; exec sleep 1000'\r
		expect begun\r\n
		send \x03
		send echo "status $?"\r
		expect status 130\r\n
		send sh -c 'trap "echo on""ward" CONT; echo "be""gun"; while :; do sleep 1; done'\r
		expect begun\r\n
		send \x1a
		expect Stopped
		send fg\r
		expect onward\r\n
		send \x03
		send echo "status $?"\r
		expect status 130\r\n
		send stty raw -echo; echo "re""ady"; head -c 15 | cat -v; stty sane; echo\r
		expect ready
		send \x00\x03\x04\x1a\x1c\x11\x13\x1b[A\xff\x80\x1d~.
		expect ^@^C^D^Z^\\^Q^S^[[AM-^?M-^@^]~.
		send printf '%b' '\\033[?1049h\\033[2J\\001\\377\\200\\016\\033[?1049l'\r
		expect \x1b[?1049h\x1b[2J\x01\xff\x80\x0e\x1b[?1049l
		send exit 7\r
		ends exit 7
	END
}

# Stopped from outside and let on again; Ctrl-D at the end, as a user without a home.
nobody() {
	on_pty shell -u nobody <<-'END'
		raw
		expect $
		send echo "I am $(id -un) in $PWD, $HOME"\r
		expect I am nobody in /, /nonexistent\r\n
		signal 20
		stopped
		size 40 120
		signal 18
		raw
		send until [ "$(stty size)" = "40 120" ]; do :; done; echo "st""ill"\r
		expect still\r\n
		send \x04
		ends exit 0
	END
}

# A command, not a shell; its own signal.
exec_tty() {
	on_pty exec --tty -e TERM=dumb -- sh -c 'read line; echo "$TERM got <$line>"; kill -USR1 $$' <<-'END'
		expect postern exec: starting a machine from the image mini; end it with Ctrl-]
		raw
		send a b\r
		expect dumb got <a b>\r\n
		ends exit 138
	END
}

missing() {
	on_pty exec --tty -- /no/such/program <<-'END'
		expect postern exec: /no/such/program: not found in the guest (image mini)\r\n
		ends exit 127
	END
}

# ends_by ENDING STEP...: the shell is there, then the steps are done and postern ends so
ends_by() {
	local ending=$1
	shift
	{
		printf '%s\n' raw 'expect #' "$@" "ends $ending"
	} | on_pty shell
}

killed_qemu() {
	ends_by "exit 125" 'run pkill -KILL -P $PID qemu-system' 'expect the command did not end'
}

# While it boots, the terminal is still the user's.
while_booting() {
	printf '%s\n' 'expect starting a machine' 'send \x07' 'ends signal 2' | on_pty shell
}

# A guest that stands still, with half a megabyte of keys to take, does not keep us.
hung() {
	ends_by "exit 125" 'run pkill -STOP -P $PID qemu-system' "send $(head -c 500000 /dev/zero | tr '\0' x)" \
		'send \x1d\x1d\x1d' 'expect left by Ctrl-] three times'
}

# In a machine that stays; Ctrl-] ends the shell alone.
named() {
	local box=shell-$$ status=0
	"$POSTERN" up "$box" >"$work/out" 2>&1 || return
	on_pty shell -n "$box" <<-'END' || status=$?
		raw
		expect #
		size 33 101
		send until [ "$(stty size)" = "33 101" ]; do :; done; echo "re""sized" >/root/seen; cat /root/seen\r
		expect resized\r\n
		send sleep 1000\r
		send \x1d\x1d\x1d
		expect left by Ctrl-] three times, and the command was ended
		ends exit 125
	END
	[ "$("$POSTERN" exec -n "$box" -- cat /root/seen)" = resized ] || status=1
	"$POSTERN" down "$box" && return $status
}

no_terminal() {
	"$POSTERN" "$@" </dev/null >"$work/out" 2>&1
	[ $? = 125 ] && has "$work/out" "standard input is no terminal"
}

no_command() {
	"$POSTERN" shell uname >"$work/out" 2>&1
	[ $? = 125 ] && has "$work/out" "postern shell: uname: it takes no command; postern exec --tty does"
}

ok "--tty wants a terminal" no_terminal exec --tty -- true
ok "so does the shell" no_terminal shell
ok "the shell takes no command" no_command
ok "a day at the shell" day
ok "another user, a stop from outside, Ctrl-D" nobody
ok "exec --tty: the command's signal" exec_tty
ok "exec --tty: a program that is not there" missing
ok "Ctrl-C while it boots" while_booting
for number in 15 1 2 3 10 6; do
	ok "signal $number" ends_by "signal $number" "signal $number"
done
ok "QEMU is killed" killed_qemu
ok "the guest powers off" ends_by "exit 125" 'send echo o >/proc/sysrq-trigger\r' 'expect powered off'
ok "Ctrl-] three times" ends_by "exit 125" 'send \x1d\x1d\x1d' 'expect left by Ctrl-] three times'
ok "Ctrl-] at a guest that hangs" hung
ok "a shell in a machine that stays" named
ok "the terminal hangs up" ends_by "signal 1" hang-up
ok "a terminal that takes no output" ends_by "signal 15" 'send yes\r' 'expect y\r\ny\r\n' stall 'signal 15'
finish
