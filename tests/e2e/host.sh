#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the host does to a trial is nobody's failure: the trial is unscored. Also: odd folders for the results.
set -u
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

page=$scenarios/unreadable-page

# A home of its own, with the templates that are there: some are removed here.
home=$(readlink -f "${POSTERN_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/postern}")
images=$(readlink -f "$home/images")
export POSTERN_HOME=$work/home
mkdir "$POSTERN_HOME"
ln -s "$images" "$POSTERN_HOME/images"
[ ! -d "$home/templates" ] || cp -a --sparse=always "$home/templates" "$POSTERN_HOME/templates"

# killed: QEMU is killed while the model works, as the kernel does when memory runs out
killed() {
	echo 'echo begun >/dev/console; sleep 1000' >"$work/long.sh"
	"$POSTERN" run "$page" --model "script:$work/long.sh" --out "$work/killed" \
		>"$work/killed.txt" 2>"$work/killed.err" &
	local run=$! worker
	wait_line "$work/killed.err" "running the script" $run
	worker=$(pgrep -P $run)
	pkill -KILL -P "$worker" qemu-system
	wait $run
}

# meanwhile NAME COMMAND...: runs the command while the model works
meanwhile() {
	local name=$1 run
	shift
	echo 'sleep 10' >"$work/short.sh"
	"$POSTERN" run "$page" --model "script:$work/short.sh" --out "$work/$name" \
		>"$work/$name.txt" 2>"$work/$name.err" &
	run=$!
	wait_line "$work/$name.err" "running the script" $run
	"$@" >/dev/null
	wait $run
}

# The image, a copy, is built anew: its disk is another.
rebuilt() {
	local POSTERN_HOME=$work/copy
	mkdir -p "$POSTERN_HOME/images"
	cp -a --reflink=auto --sparse=always "$images/server" "$images/toolbox" "$POSTERN_HOME/images"
	meanwhile rebuilt touch "$POSTERN_HOME/images/server/disk.qcow2"
	rm -r "$POSTERN_HOME"
}

# small: the results go to a disk on which the machine finds no room
small() {
	mkdir "$work/small"
	mount -t tmpfs -o size=24m none "$work/small" || return
	"$POSTERN" run "$page" --model solution --out "$work/small/out" >"$work/small.txt" 2>&1
	cp "$work/small/out/unreadable-page/1/trial.json" "$work/small.json"
}

# odd: two runs at once in folders whose names look like a protocol and like an option
odd() {
	cd "$work" || exit
	"$POSTERN" run "$page" --model solution --out -a:b >"$work/odd.txt" 2>&1 &
	local run=$!
	wait_line "$work/odd.txt" starting $run
	"$POSTERN" run "$page" --model solution --out -a:b >"$work/second.txt" 2>&1
	wait $run
}

# dies: a QEMU that ends at once with a message
dies() {
	mkdir "$work/bin"
	printf '#!/bin/sh\necho "qemu: something is wrong" >&2\nexit 1\n' >"$work/bin/qemu-system-x86_64"
	chmod +x "$work/bin/qemu-system-x86_64"
	PATH=$work/bin:$PATH "$POSTERN" run "$page" --model nothing --out "$work/dies" >"$work/dies.txt" 2>&1
}

# at_once: four runs that do not say where to
at_once() {
	cd "$work" || exit
	for _ in 1 2 3 4; do
		PATH=$work/bin:$PATH "$POSTERN" run "$page" --model nothing >/dev/null 2>&1 &
	done
	wait
}

dies
ok "what QEMU said before it died is told" has "$work/dies.txt" \
	"QEMU ended with status 1 and said: qemu: something is wrong"
ok "that is unscored" field "$work/dies/unreadable-page/1/trial.json" .verdict unscored
(at_once)
ok "runs that begin at once have a folder each" test "$(find "$work/runs" -name trial.json | wc -l)" = 4
killed
ok "a machine killed from outside is unscored" field "$work/killed/unreadable-page/1/trial.json" \
	'"\(.verdict): \(.reason)"' \
	"unscored: QEMU was ended by somebody on the host, or for want of memory: see the host's log and run it again"
rebuilt
ok "an image built anew meanwhile is nobody's failure" field "$work/rebuilt/unreadable-page/1/trial.json" \
	'"\(.verdict): \(.reason)"' \
	"unscored: making the disk of the cold boot: the image's disk was built anew while the trial ran: run it again"
meanwhile removed "$POSTERN" template rm scenario:unreadable-page
ok "a template removed meanwhile is nobody's failure" field "$work/removed/unreadable-page/1/trial.json" \
	'"\(.verdict): \(.reason)"' \
	"unscored: making the disk of the cold boot: the template that the trial began from was removed while it ran: run it again"
(odd)
ok "an odd name of a folder is just a name" has "$work/odd.txt" "1 of 1 passed"
ok "a folder in use is refused" has "$work/second.txt" "--out -a:b: "
export -f small
export POSTERN page work
unshare --map-root-user --mount bash -c small
ok "a full disk of the host is unscored" field "$work/small.json" '"\(.verdict): \(.reason)"' \
	"unscored: the host's disk is full: make room and run it again"
finish
