#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every scenario is sound: doing nothing fails, the reference fix and each right fix pass, each wrong
# fix fails in the checks that its line "caught by:" names. Two runs side by side, one per core.
set -u
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# try SCENARIO MODEL NAME: one run, recorded in $work/SCENARIO/NAME
try() {
	mkdir -p "$work/$1"
	"$POSTERN" run "$scenarios/$1" --model "$2" --out "$work/$1/$3" >"$work/$1/$3.txt" 2>&1
	rm -f "$work/$1/$3/$1/1/overlay.qcow2"
}
export -f try
export work scenarios POSTERN

# jobs: SCENARIO MODEL NAME, one per line
jobs() {
	local folder name script
	for folder in "$scenarios"/*/; do
		name=$(basename "$folder")
		[ -f "$folder/scenario.md" ] || continue
		echo "$name nothing nothing"
		echo "$name solution solution"
		for script in "$folder"right/*.sh "$folder"wrong/*.sh; do
			echo "$name script:$script $(basename "$(dirname "$script")")-$(basename "$script" .sh)"
		done
	done
}

# passes TRIAL LOG / fails TRIAL LOG [STAGE/CHECK...]
passes() {
	field "$1/trial.json" .verdict pass || { cat "$2" "$1/grade.json"; return 1; }
}

fails() {
	local trial=$1 log=$2 check
	shift 2
	field "$trial/trial.json" .verdict fail || { cat "$log"; return 1; }
	for check; do
		jq -e --arg stage "${check%/*}" --arg check "${check#*/}" \
			'.stages[$stage].failed | index($check) != null' "$trial/trial.json" >/dev/null || {
			echo "not caught by $check:"
			cat "$log"
			return 1
		}
	done
}

jobs >"$work/jobs"
xargs -P 2 -L 1 bash -c 'try "$@"' try <"$work/jobs"

while read -r scenario model name; do
	trial=$work/$scenario/$name/$scenario/1
	case $name in
	solution | right-*)
		ok "$scenario: $name passes" passes "$trial" "$work/$scenario/$name.txt"
		;;
	*)
		caught=
		[ "$model" = nothing ] || caught=$(sed -n 's/^# caught by: //p' "${model#script:}")
		# shellcheck disable=SC2086 # a list of words
		ok "$scenario: $name fails" fails "$trial" "$work/$scenario/$name.txt" $caught
		;;
	esac
done <"$work/jobs"
finish
