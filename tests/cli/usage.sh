#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317 # the checks are called by name
# Help is to be had wherever somebody looks for it, and wrong use is told in one sentence.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/../vm/lib.sh"
POSTERN_HOME=$work/home
export POSTERN_HOME

commands() {
	"$POSTERN" --help | sed -nE 's/^  ([a-z]+)  .*/\1/p'
}

# helped COMMAND WORD...: prints the help of that command, and nothing else
helped() {
	local command=$1
	"$POSTERN" "$@" >"$work/out" 2>"$work/err" && same "$(cat "$work/err")" '' || return
	same "$(cat "$work/out")" "$("$POSTERN" help "$command")" &&
		contains "$(head -n 1 "$work/out")" "usage: postern $command "
}

help_comes_first() {
	local command
	contains "$(commands)" template || return
	for command in $(commands); do
		helped "$command" --help && helped "$command" -h || return
	done
}

help_comes_later() {
	helped template ls --help && helped template rm --help && helped template verify -h &&
		helped template rm mini --help && helped doctor --json --help && helped exec -i mini --help &&
		helped shell -u root -h && helped run some --model nothing --help && helped run --json -h
}

# The command's own words are its own.
help_of_the_guest() {
	local said
	said=$("$POSTERN" exec ls --help 2>&1)
	contains "$said" 'postern exec: there is no image mini'
}

# refused COMMAND SENTENCE STATUS WORD...
refused() {
	local command=$1 sentence=$2 wanted=$3 status=0 said
	shift 3
	said=$("$POSTERN" "$command" "$@" 2>&1) || status=$?
	same "$status" "$wanted" && same "$said" "postern $command: $sentence; see postern $command --help"
}

empty_values() {
	refused exec "-i '': want the name of an image" 125 -i '' true &&
		refused shell "-i '': want the name of an image" 125 -i '' &&
		refused exec "-u '': want a user of the guest, a name or a number" 125 -u '' true &&
		refused shell "-u '': want a user of the guest, a name or a number" 125 -u '' &&
		refused exec "-w 'tmp': want an absolute path of the guest" 125 -w tmp true &&
		refused exec "-t '': want seconds, above 0 and up to 2000000" 125 -t '' true &&
		refused exec "-e '': want NAME=VALUE" 125 -e '' true
}

check "every command has help" help_comes_first
check "help may come after other words" help_comes_later
check "but not in the words of a guest's command" help_of_the_guest
check "values that are empty or wrong are quoted" empty_values
finish
