#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A real llama-server with a scripted model repairs real machines, or does not.
set -u
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
# shellcheck source=tests/llama/llama.sh
. "$here/../llama/llama.sh"
trap 'llama_clean; rm -rf "$work"' EXIT

repairs='' failure='' reboot=''

# start VARIABLE SCRIPT: a server whose address goes into VARIABLE
start() {
	llama_start "$here/../llama/$2" || exit
	printf -v "$1" %s "$LLAMA_URL"
}

start repairs script.json
start failure script-fail.json
start reboot script-reboot.json

(
	"$POSTERN" run "$scenarios/port-squatter" "$scenarios/unreadable-page" "$scenarios/nginx-down" \
		--model "$repairs" --out "$work/repairs" >"$work/repairs.txt" 2>"$work/repairs.err"
	echo $? >"$work/repairs.code"
) &
first=$!
(
	"$POSTERN" run "$scenarios/unreadable-page" --model "$failure" --out "$work/failure" \
		>"$work/failure.txt" 2>"$work/failure.err"
	echo $? >"$work/failure.code"
	"$POSTERN" run "$scenarios/nginx-down" --model "$reboot" --out "$work/reboot" \
		>"$work/reboot.txt" 2>"$work/reboot.err"
	echo $? >"$work/reboot.code"
) &
wait $first $!

sed 's/^/# /' "$work"/*.txt
ok "the model repairs all three" has "$work/repairs.txt" "3 of 3 passed"
ok "a run in which all pass ends with 0" has "$work/repairs.code" 0
for scenario in port-squatter unreadable-page nginx-down; do
	trial=$work/repairs/$scenario/1
	ok "$scenario: the model said that it was done" field "$trial/trial.json" .ended.how answered
	ok "$scenario: the trial was sealed" field "$trial/trial.json" .sealed true
	ok "$scenario: tokens were counted" jq -e '.completion_tokens > 0' "$trial/trial.json"
	ok "$scenario: the transcript is JSON, line by line" jq -e . "$trial/transcript.jsonl"
done

trial=$work/failure/unreadable-page/1
ok "the classic failure fails" field "$trial/trial.json" .verdict fail
ok "it ends by the turns, and says how many" field "$trial/trial.json" '.ended | "\(.how) \(.limit)"' "turns 12"
ok "it fails because the site does not answer" \
	field "$trial/trial.json" '.stages.live.failed | index("site-answers") != null' true
ok "a run in which one fails ends with 1" has "$work/failure.code" 1

trial=$work/reboot/nginx-down/1
ok "a reboot in the middle is no failure" field "$trial/trial.json" .verdict pass
ok "the model was told of the reboot" has "$trial/transcript.jsonl" "the machine rebooted and is up again"
finish
