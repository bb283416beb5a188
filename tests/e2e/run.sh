#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `postern run` when things go wrong: in the scenario, on the host, in the machine.
set -u
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

page=$scenarios/unreadable-page
fix=$(cat "$page/fix.sh")

# refused TEXT CODE ARGUMENT...: postern run says this and ends with this code
refused() {
	local text=$1 code=$2 got
	shift 2
	"$POSTERN" run "$@" >"$work/refused" 2>&1
	got=$?
	[ $got = "$code" ] && has "$work/refused" "$text" && [ "$(wc -l <"$work/refused")" = 1 ] && return
	echo "exit code $got"
	cat "$work/refused"
	return 1
}

# script NAME TEXT: one trial of the page scenario with this as the model's work
script() {
	printf '%s\n' "$2" >"$work/$1.sh"
	"$POSTERN" run "$page" --model "script:$work/$1.sh" --out "$work/$1" >"$work/$1.txt" 2>&1
	echo $? >"$work/$1.code"
}

# interrupt: Ctrl-C in the second of two trials
interrupt() {
	"$POSTERN" run "$page" --model nothing --trials 2 --out "$work/int" >"$work/int.txt" 2>"$work/int.err" &
	local pid=$!
	wait_line "$work/int.err" "unreadable-page 2/2  starting" $pid
	kill -INT $pid
	wait $pid
	echo $? >"$work/int.code"
}

# crash: the worker is killed from outside
crash() {
	"$POSTERN" run "$page" --model nothing --out "$work/crash" >"$work/crash.txt" 2>"$work/crash.err" &
	local pid=$!
	wait_line "$work/crash.err" "unreadable-page 1/1  starting" $pid
	pkill -KILL -P $pid
	wait $pid
	echo $? >"$work/crash.code"
}

cp -r "$scenarios" "$work/copy"
sed -i 's/^turns:.*/turns: many/' "$work/copy/unreadable-page/scenario.md"
sed -i 's/^difficulty:/difficult:/' "$work/copy/nginx-down/scenario.md"
ok "a wrong value is named with file and line" \
	refused "copy/unreadable-page/scenario.md:6: want turns from 1 to 1000" 2 \
	"$work/copy/unreadable-page" --model nothing --out "$work/refused.d"
ok "an unknown key is named with file and line" \
	refused "copy/nginx-down/scenario.md:5: unknown key difficult" 2 \
	"$page" "$work/copy/nginx-down" --model nothing --out "$work/refused.d"
ok "a scenario that is not there is named" \
	refused "no-such: no such scenario" 2 no-such --model nothing
others() {
	cd "$top" && refused "no-such: no such scenario; there are nginx-down, port-squatter, unreadable-page in ./scenarios" \
		2 no-such --model nothing
}
ok "those that are there are named" others
ok "an option that is not there is named" refused "unknown option --bogus;" 2 "$page" --bogus
ok "an option without its value is named" refused "--model needs a value;" 2 "$page" --model
ok "a number out of range is named" refused "--trials 0: want a whole number from 1 to" 2 "$page" --trials 0
ok "a URL without its scheme is completed" \
	refused "--model localhost:8080: want a URL; did you mean http://localhost:8080?" 2 "$page" --model localhost:8080
ok "a script that is not there is named" \
	refused "run: --model script:/nonexist: No such file or directory" 2 "$page" --model script:/nonexist
ok "a model has to be named" refused "--model is missing" 2 "$page"
ok "a server that is not there is named" \
	refused "http://127.0.0.1:1" 125 "$page" --model http://127.0.0.1:1 --out "$work/refused.d"
ok "nothing was begun" test ! -e "$work/refused.d"
ok "a folder that is not empty is refused" \
	refused "not empty" 2 "$page" --model nothing --out "$work/copy"

{
	interrupt
	crash
	script off "$fix
poweroff"
} &
{
	script hog "tail /dev/zero || true
$fix"
	script panic "echo c >/proc/sysrq-trigger"
} &
script kill "$fix
kill -9 -1"
wait

trials=$work/int/unreadable-page
ok "Ctrl-C ends the run with 130" has "$work/int.code" 130
ok "a finished trial is kept" field "$trials/1/trial.json" .verdict fail
ok "it is in the table" has "$work/int.txt" "0 of 2 passed; interrupted, 1 not finished"
ok "an unfinished one is not finished" test ! -e "$trials/2/trial.json"
ok "Ctrl-C leaves no machine" no_machine "$work/int"

trial=$work/crash/unreadable-page/1
ok "a worker that is killed is unscored" field "$trial/trial.json" '"\(.verdict): \(.reason)"' \
	"unscored: worker ended by signal 9"
ok "it is counted so" has "$work/crash.txt" "0 of 1 passed, 1 unscored"
ok "it leaves no machine" no_machine "$work/crash"

trial=$work/off/unreadable-page/1
ok "powering off fails" field "$trial/trial.json" '"\(.verdict): \(.reason)"' \
	"fail: the machine was powered off"
ok "the cold boot is recorded all the same" field "$trial/trial.json" .stages.boot.passed true
ok "how QEMU was confined is recorded" field "$trial/trial.json" \
	'.confinement | to_entries | map("\(.key) \(.value.in_force)") | join(", ")' \
	"files true, network true, calls true, privileges true, limits true"

ok "a template that is there keeps nobody waiting" field "$trial/trial.json" '.seconds.template < 5' true

trial=$work/kill/unreadable-page/1
ok "killing all processes fails" field "$trial/trial.json" .verdict fail
ok "the reason is the channel" has "$work/kill.txt" "channel closed by the guest"
ok "the cold boot is recorded all the same" field "$trial/trial.json" .stages.boot.ran true

ok "a kernel panic fails" field "$work/panic/unreadable-page/1/trial.json" .verdict fail
ok "the panic is quoted" has "$work/panic.txt" "sysrq triggered crash"

ok "a memory hog is ended and the channel lives" \
	field "$work/hog/unreadable-page/1/trial.json" .verdict pass
finish
