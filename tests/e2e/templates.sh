#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Trials begin as clones of their scenario's template: made once, never changed, made anew when what it
# stands on changed, done without where it can't be had. CLONES=N: so many clones must leave it as it is.
set -u
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

images=$(readlink -f "${POSTERN_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/postern}/images")
export POSTERN_HOME=$work/home
mkdir "$POSTERN_HOME"
ln -s "$images" "$POSTERN_HOME/images"
templates=$POSTERN_HOME/templates
once="making a template of scenario page, once: later trials start from it"
console=$work/begun/page/1/console.log
anew="making the template of scenario page anew: its"

# What the model does here, but for whole trials.
cat >"$work/look.sh" <<'END'
{
	echo "page: $(stat -c %a /var/www/html/index.nginx-debian.html)"
	echo "of the boot before: $(ls /run/before 2>&1)"
	echo "boots: $(sort -u /root/boot_id /proc/sys/kernel/random/boot_id 2>/dev/null | wc -l)"
	echo "system: $(systemctl is-system-running)"
	echo "that was all"
} >/dev/console
sleep 10000
END

cp -r "$scenarios/lib" "$work/lib"
cp -r "$scenarios/unreadable-page" "$work/page"

files() { find "$templates/scenario:page" -type f ! -name lock ! -name template.json | sort; }
hashes() { find "$templates" -name '*.memory' -o -name '*.state' -o -name '*.qcow2' | sort | xargs sha256sum; }
id() { jq -r .id "$templates/$1/template.json"; }

# begins TEXT...: a trial says these lines and comes to the model's work, with the fault; then it is ended.
# What the model saw is in $console.
begins() {
	local text
	rm -rf "$work/begun"
	"$POSTERN" run "$work/page" --model "script:$work/look.sh" --out "$work/begun" >"$work/begun.txt" 2>&1 &
	local pid=$!
	wait_line "$console" "that was all" $pid || { cat "$work/begun.txt"; return 1; }
	kill -INT $pid
	wait $pid
	for text; do
		has "$work/begun.txt" "$text" || return
	done
	has "$console" "page: 0"
}

# silent: a trial begins without making anything
silent() {
	begins && ! grep -E "making|breaking" "$work/begun.txt"
}

# whole NAME MODEL: a trial to its end
whole() {
	"$POSTERN" run "$work/page" --model "$2" --out "$work/$1" >"$work/$1.txt" 2>&1
	test -e "$work/$1/page/1/trial.json"
}

two_trials() {
	whole first nothing && has "$work/first.txt" "making a template of image server" && has "$work/first.txt" "$once" &&
		has "$work/first.txt" "breaking it" && silent
}

recorded() {
	local trial=$work/first/page/1/trial.json
	field "$trial" .start "clone of the scenario's template" && field "$trial" .start_reason null &&
		field "$trial" .template "$(id scenario:page)" && field "$trial" '.seconds.template > 1' true &&
		field "$trial" .seconds.break 0 && field "$trial" .sealed true && field "$trial" .verdict fail
}

apart() {
	local i
	hashes >"$work/before"
	for ((i = 0; i < ${CLONES:-5}; i++)); do
		silent || return
	done
	hashes | diff "$work/before" - && "$POSTERN" template verify
}

listed() {
	"$POSTERN" template ls | grep -E "^scenario:page .* yes " &&
		[ "$("$POSTERN" template ls --json | jq -r '.templates[] | select(.scenario == "page") | .image')" = server ]
}

# alone: a template that was made anew has left nothing of the old one but its disk
alone() { [ "$(files | grep -vc qcow2)" = 2 ]; }

break_changed() {
	echo "echo broken" >>"$work/page/break.sh"
	begins "$anew break.sh changed" && alone && silent
}

files_changed() {
	mkdir "$work/page/files"
	echo one >"$work/page/files/one"
	begins "$anew files/ changed" && silent || return
	mv "$work/page/files/one" "$work/page/files/two"
	begins "$anew files/ changed" && silent
}

# One of what it stands on is made anew, so has a new id.
image_changed() {
	jq '.key.postern = "0.0"' "$templates/server/template.json" >"$work/json"
	cp "$work/json" "$templates/server/template.json"
	begins "making the template of image server anew: its postern changed" "$anew image's template changed" && silent
}

host_changed() {
	jq '.key.QEMU = "another"' "$templates/scenario:page/template.json" >"$work/json"
	cp "$work/json" "$templates/scenario:page/template.json"
	"$POSTERN" template ls | grep -E "^scenario:page .* its QEMU changed" && begins "$anew QEMU changed" && silent
}

# What has nothing to do with the machine changes nothing.
others_changed() {
	sed -i 's/^turns:.*/turns: 3/' "$work/page/scenario.md"
	echo "# another" >>"$work/page/checks/live.sh"
	echo "# another" >>"$work/page/fix.sh"
	silent
}

incomplete() {
	: >"$(files | grep memory)"
	begins "making the template of scenario page anew: its files are incomplete" && silent
}

# refused_state: this trial does without, the next makes it anew
refused_state() {
	head -c 20000 /dev/urandom >"$(files | grep state)"
	begins "breaking it" && ! grep making "$work/begun.txt" && begins "$once" && silent
}

# Its break.sh is still at work then.
killed() {
	echo "sleep 60" >>"$work/page/break.sh"
	"$POSTERN" run "$work/page" --model nothing --out "$work/killed" >"$work/killed.txt" 2>&1 &
	local pid=$! worker qemu
	wait_line "$work/killed.txt" "breaking it" $pid || return
	worker=$(pgrep -P $pid) && qemu=$(pgrep -P "$worker" qemu-system) || return
	kill -KILL $pid "$worker"
	wait $pid
	sed -i '$s/.*/# changed/' "$work/page/break.sh"
	timeout 20 tail --pid="$qemu" -f /dev/null && files | grep new.memory &&
		begins "$anew break.sh changed" && alone && ! files | grep new && silent
}

removed() {
	"$POSTERN" template rm server >"$work/rm.txt" 2>&1 &&
		has "$work/rm.txt" "removed the template of scenario page too: its disk stood on that of the one of image server" &&
		has "$work/rm.txt" "removed the template of image server" && [ -z "$(files)" ] &&
		begins "making a template of image server, once" "$once" && silent || return
	"$POSTERN" template rm scenario:page >"$work/rm.txt" 2>&1 && [ -z "$(files)" ] &&
		has "$work/rm.txt" "removed the template of scenario page" &&
		begins "$once" && ! grep "image server" "$work/begun.txt"
}

# A break.sh that fails is the scenario's fault, in a template as in a machine: told once, nothing is kept.
no_break() {
	local status=0
	echo "echo some words; exit 3" >>"$work/page/break.sh"
	whole no-break solution
	field "$work/no-break/page/1/trial.json" '"\(.verdict): \(.reason)"' \
		"unscored: break.sh: ended with exit code 3; its last words: broken
some words" && [ "$(grep -c "breaking it" "$work/no-break.txt")" = 1 ] && alone && ! files | grep new || status=1
	sed -i '$d' "$work/page/break.sh"
	return $status
}

# without: where it can't be kept, the image's template is broken for each trial
without() {
	rm -rf "$templates/scenario:page"
	touch "$templates/scenario:page"
	whole without solution
	rm "$templates/scenario:page"
	field "$work/without/page/1/trial.json" .verdict pass &&
		field "$work/without/page/1/trial.json" .start "clone of the image's template" &&
		field "$work/without/page/1/trial.json" .start_reason \
			"$templates/scenario:page/lock: Not a directory"
}

# A boot lies between break.sh and the template: what was in memory alone is gone.
reboots() {
	sed -i 's/^time:/reboot: yes\ntime:/' "$work/page/scenario.md"
	echo "touch /run/before; cp /proc/sys/kernel/random/boot_id /root/boot_id" >>"$work/page/break.sh"
	begins "breaking it" && silent && has "$console" "boots: 2" && has "$console" "system: running" &&
		has "$console" "of the boot before: ls: cannot access '/run/before'"
}

own_memory() {
	sed -i 's/^reboot:.*/memory: 600/' "$work/page/scenario.md"
	begins "$anew memory changed" && silent && "$POSTERN" template ls | grep -E "^scenario:page .* yes " &&
		"$POSTERN" template rm server && [ "$(files | grep -c memory)" = 1 ]
}

ok "a scenario's template is made once, and that is told" two_trials
ok "the trial's record says what it began as" recorded
ok "clones leave it as it is" apart
ok "it is listed" listed
ok "another break.sh" break_changed
ok "other files" files_changed
ok "another template of the image" image_changed
ok "another QEMU" host_changed
ok "what does not go into the machine is no reason" others_changed
ok "a file that is not whole" incomplete
ok "a state that QEMU refuses" refused_state
ok "SIGKILL while it is made" killed
ok "the image's template is removed" removed
ok "a break.sh that fails" no_break
ok "nowhere to keep it" without
ok "reboot: yes boots between break.sh and the model" reboots
ok "a size of memory of its own" own_memory
finish
