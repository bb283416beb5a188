#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317,SC2016 # the checks are called by name; guests expand their own variables
# Machines start from templates: made once, never changed, made anew when anything they stand on changed.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
requires_image mini
requires_image server
requires_program pgrep
own_home

# The files of an image's template: files IMAGE [KIND]
files() {
	find "$POSTERN_HOME/templates/$1" -name "*${2+.$2}" -type f ! -name lock ! -name template.json | sort
}

hashes() {
	files "$1" | xargs sha256sum
}

# Runs a command and wants a sentence on stderr, "" for none at all: says SENTENCE ARGUMENT...
says() {
	local sentence=$1
	shift
	pexec "$@" -- echo ran >"$work/out" 2>"$work/err" && same "$(cat "$work/out")" ran || return
	if [ -n "$sentence" ]; then
		contains "$(cat "$work/err")" "$sentence"
	else
		same "$(cat "$work/err")" ""
	fi
}

# Ends a postern while it makes a template: killed_while_making SIGNAL
killed_while_making() {
	local postern qemu line
	own_home
	mkfifo "$work/said.$1"
	"$POSTERN" exec -- true 2>"$work/said.$1" &
	postern=$!
	exec 4<"$work/said.$1"
	read -r -t 60 line <&4 && contains "$line" 'making a template of image mini, once' || return
	until qemu=$(pgrep -P "$postern" qemu-system); do
		kill -0 "$postern" || return
	done
	kill -"$1" "$postern"
	gone "$postern" 20 && gone "$qemu" 20 || return
	exec 4<&-
	[ "$1" = KILL ] || same "$(find "$POSTERN_HOME/templates/mini" -name 'new.*')" '' || return
	says 'making a template of image mini, once' && says '' || return
	same "$(files mini | wc -l)" 2
}

killed() { killed_while_making KILL; }
interrupted() { killed_while_making INT; }

two_at_once() {
	own_home
	pexec -- echo one >"$work/one" 2>"$work/one.err" &
	pexec -- echo two >"$work/two" 2>"$work/two.err" || return
	wait $! || return
	same "$(cat "$work/one" "$work/two")" $'one\ntwo' || return
	same "$(cat "$work/one.err" "$work/two.err" | grep -c 'making a template')" 1 &&
		same "$(files mini | wc -l)" 2
}

told_once() {
	says 'postern exec: making a template of image mini, once: later machines start from it; this takes ' &&
		says '' &&
		says 'making a template of image server, once' -i server && says '' -i server || return
	hashes mini >"$work/mini.before"
	hashes server >"$work/server.before"
}

random_numbers_differ() {
	local image all
	for image in mini server; do
		all=$(for _ in 1 2 3 4 5; do
			pexec -i "$image" -- sh -c 'head -c 8 /dev/urandom | od -An -tx1; cat /proc/sys/kernel/random/uuid'
		done)
		same "$(wc -l <<<"$all")" 10 && same "$(sort -u <<<"$all" | wc -l)" 10 || return
	done
}

# The guest's clock is read between two readings of ours: the tightest of ten says how far it may be off.
clock_is_right() {
	local before guest after to bound best=1000000000
	coproc pexec -i server --stdin -- bash -c 'while read -r _; do echo "${EPOCHREALTIME/./}"; done'
	to=${COPROC[1]}
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		before=${EPOCHREALTIME/./}
		echo >&"$to"
		read -r -t 120 guest <&"${COPROC[0]}" || return
		after=${EPOCHREALTIME/./}
		bound=$((guest - before > after - guest ? guest - before : after - guest))
		[ "$bound" -lt "$best" ] && best=$bound
	done
	exec {to}>&-
	echo "the guest's clock is off by less than $best us"
	[ "$best" -lt 100000 ]
}

# Each clone leaves a token in a file, in memory and in a process, and sees no other's.
clones_are_apart() {
	local image=$1 clones=$2 directory=$3 i
	for ((i = 1; i <= clones; i++)); do
		pexec -i "$image" -e "TOKEN=token-$i" -- sh -c "ls $directory | grep token; ls /dev/shm 2>/dev/null | grep token
			cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -x 'token-[0-9]*'
			echo \$TOKEN >$directory/\$TOKEN; echo \$TOKEN >/dev/shm/\$TOKEN 2>/dev/null; sync
			sh -c 'sleep 100000; :' \$TOKEN & cat $directory/token-*" >"$work/seen" || return
		same "$(cat "$work/seen")" "token-$i" || return
	done
}

mini_is_apart() { clones_are_apart mini 20 /root; }
server_is_apart() { clones_are_apart server 5 /root; }

disk_works() {
	same "$(pexec -i server -- sh -c 'dd if=/dev/urandom of=/root/data bs=1M count=16 conv=fsync 2>/dev/null &&
		a=$(sha256sum </root/data) && echo 3 >/proc/sys/vm/drop_caches &&
		[ "$a" = "$(sha256sum </root/data)" ] && echo same')" same
}

nginx_answers() {
	contains "$(pexec -i server -- curl -s http://127.0.0.1/)" '<html' &&
		same "$(pexec -i server -- systemctl is-system-running)" running
}

unchanged() {
	same "$(hashes mini)" "$(cat "$work/mini.before")" && same "$(hashes server)" "$(cat "$work/server.before")" &&
		same "$("$POSTERN" template verify)" $'mini: whole\nserver: whole'
}

listed() {
	local out
	out=$("$POSTERN" template ls) || return
	same "$(wc -l <<<"$out")" 3 && same "$(grep -cE 'MiB  .*Z  yes +0$' <<<"$out")" 2 || return
	same "$("$POSTERN" template ls --json | jq -c '.templates[] | [.image, .fits, .reason, .old_overlays]')" \
		$'["mini",true,null,0]\n["server",true,null,0]'
}

# What a template holds is the memory of a machine.
private() {
	same "$(find "$POSTERN_HOME"/templates/* -perm /077)" ''
}

# Changes some bytes in the middle of a file.
damage() {
	local size
	size=$(stat -c %s "$1")
	chmod u+w "$1"
	head -c 40000 /dev/urandom | dd of="$1" bs=1 seek=$((size / 2)) conv=notrunc status=none
}

damage_is_found() {
	local status=0 kind
	for kind in memory state qcow2; do
		local file backup=$work/backup
		file=$(files server "$kind")
		cp --sparse=always "$file" "$backup"
		damage "$file"
		status=0
		"$POSTERN" template verify server >"$work/out" 2>"$work/err" || status=$?
		cp --sparse=always "$backup" "$file"
		same "$status" 1 && contains "$(cat "$work/err")" "$file is not as it was made" || return
	done
	same "$("$POSTERN" template verify server)" 'server: whole'
}

# A state that can't be loaded: this machine is booted, the next makes the template anew.
damaged_state() {
	head -c 20000 /dev/urandom >"$(files mini state)"
	says 'the machine was booted, not started from a template: the saved state can' &&
		contains "$(cat "$work/err")" 'load of migration failed' &&
		same "$(wc -l <"$work/err")" 1 &&
		says 'making a template of image mini' && says ''
}

# A file that QEMU would fill with zeros.
emptied_memory() {
	: >"$(files mini memory)"
	contains "$("$POSTERN" template ls)" 'its files are incomplete' &&
		says 'making the template of image mini anew: its files are incomplete' && says ''
}

# The list and those who start machines agree on what fits.
missing_file() {
	local kind
	for kind in memory state qcow2; do
		rm -f "$(files server "$kind")"
		contains "$("$POSTERN" template ls)" 'its files are incomplete' || return
	done
	says 'making the template of image server anew: its files are incomplete' -i server && says '' -i server &&
		same "$("$POSTERN" template ls --json | jq -c '[.templates[].fits]')" '[true,true]'
}

other_qemu() {
	local real
	real=$(command -v qemu-system-x86_64)
	mkdir -p "$work/bin"
	printf '#!/bin/sh\nexec %s "$@"\n' "$real" >"$work/bin/qemu-system-x86_64"
	chmod +x "$work/bin/qemu-system-x86_64"
	PATH=$work/bin:$PATH
	contains "$("$POSTERN" template ls)" 'its QEMU changed' &&
		says 'making the template of image mini anew: its QEMU changed' && says ''
}

other_memory() {
	local images
	images=$(readlink -f "$POSTERN_HOME/images")
	own_home
	rm "$POSTERN_HOME/images"
	mkdir "$POSTERN_HOME/images" "$POSTERN_HOME/images/mini"
	ln -s "$images"/mini/* "$POSTERN_HOME/images/mini/"
	says 'making a template of image mini, once' || return
	rm "$POSTERN_HOME/images/mini/image.json"
	jq '.memory_mib += 64' "$images/mini/image.json" >"$POSTERN_HOME/images/mini/image.json"
	says 'making the template of image mini anew: its memory changed' && says ''
}

# Disks of trials stand on old overlays, so those stay until they are removed by name.
old_overlays() {
	jq '.key.postern = "0.0"' "$POSTERN_HOME/templates/server/template.json" >"$work/json"
	cp "$work/json" "$POSTERN_HOME/templates/server/template.json"
	contains "$("$POSTERN" template ls)" 'its postern changed' &&
		says 'its postern changed' -i server &&
		same "$("$POSTERN" template ls --json | jq -c '[.templates[].old_overlays]')" '[0,1]' &&
		same "$(files server qcow2 | wc -l)" 2 && same "$(files server memory | wc -l)" 1
}

removed() {
	local status=0
	contains "$("$POSTERN" template rm server)" "can't be read any more" &&
		same "$(files server)" '' && ! contains "$("$POSTERN" template ls)" server >/dev/null &&
		contains "$("$POSTERN" template rm --all)" 'image mini' || return
	same "$("$POSTERN" template ls)" 'there are no templates: the first machine of an image makes one' || return
	"$POSTERN" template rm nosuch 2>"$work/err" || status=$?
	same "$status" 1 && contains "$(cat "$work/err")" 'there is no template of an image nosuch' || return
	status=0
	"$POSTERN" template rm 2>"$work/err" || status=$?
	same "$status" 2
}

# A trial that waits for its template says how long.
trial_waits() {
	local trial=$work/waits/unreadable-page/1/trial.json
	own_home
	"$POSTERN" run "$(dirname "$0")/../../scenarios/unreadable-page" --model nothing --out "$work/waits" \
		>"$work/out" 2>&1
	contains "$(cat "$work/out")" 'making a template of image server, once' || return
	jq '.seconds' "$trial"
	same "$(jq '.seconds | .template > 2 and .boot < .template and
		((.template + .boot + .break + .model + .end + .live + .boot_stage - .all) | fabs) < 0.01' "$trial")" true
}

# There is nowhere to keep one.
no_room() {
	unshare --map-root-user --mount bash -c '
		mkdir "$work/tiny"
		mount -t tmpfs -o size=32m none "$work/tiny" || exit
		ln -s "$POSTERN_HOME/images" "$work/tiny/images"
		POSTERN_HOME=$work/tiny "$POSTERN" exec -- echo ran' >"$work/out" 2>"$work/err" || return
	same "$(cat "$work/out")" ran &&
		contains "$(cat "$work/err")" 'the machine was booted, not started from a template' &&
		contains "$(cat "$work/err")" 'MiB free'
}

# A folder whose name needs care.
odd_home() {
	local images
	images=$(readlink -f "$POSTERN_HOME/images")
	POSTERN_HOME="$work/a, b=c:d"
	mkdir "$POSTERN_HOME"
	ln -s "$images" "$POSTERN_HOME/images"
	export POSTERN_HOME
	says 'making a template of image server, once' -i server && says '' -i server
}

check "a template is made once, and that is told" told_once
check "clones draw random numbers of their own" random_numbers_differ
check "a clone's clock is right" clock_is_right
check "clones without a disk see nothing of each other" mini_is_apart
check "clones with a disk see nothing of each other" server_is_apart
check "a clone's disk takes writes" disk_works
check "a clone's services are up" nginx_answers
check "clones leave the template as it is" unchanged
check "templates are listed" listed
check "templates are for their owner's eyes" private
check "a damaged file is found" damage_is_found
check "a state that can't be loaded" damaged_state
check "a memory file that is empty" emptied_memory
check "a file that is missing" missing_file
check "another QEMU" other_qemu
check "another size of memory" other_memory
check "old disks are kept" old_overlays
check "templates are removed" removed
check "a trial that makes one" trial_waits
check "two that want one at once" two_at_once
check "SIGKILL while one is made" killed
check "SIGINT while one is made" interrupted
check "no room for one" no_room
check "a home with an odd name" odd_home
finish
