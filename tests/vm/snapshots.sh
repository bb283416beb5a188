#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317,SC2016 # the checks are called by name; guests expand their own variables
# Machines with names, saved with their memory: taken back, started a second time, and every way in which that
# fails.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
requires_image mini
requires_image server
requires_program pgrep
requires_program jq
requires_program mount
requires_program perl
named_machines

# Of the snapshots of a machine: names NAME
names() { p snapshot "$1" --ls --json | jq -r '.snapshots | map(.name) | join(" ")'; }
sh_in() { p exec -n "$1" -- sh -c "$2"; }
up() { p up "$@" 2>"$work/err" >"$work/out" || { cat "$work/err"; return 1; }; }
save() { p snapshot "$@" 2>"$work/err" >"$work/out" || { cat "$work/err"; return 1; }; }
random_of() { sh_in "$1" 'head -c 16 /dev/urandom | od -An -tx1'; }
# Stops the QEMU that is started beside that of the machine, while that is saved: stop_copy NAME. Its pid is $copy.
stop_copy() {
	local keeper qemu end=$((SECONDS + 60))
	keeper=$(keeper_of "$1") && qemu=$(pgrep -o -P "$keeper" qemu-system) || return
	until copy=$(pgrep -n -P "$keeper" qemu-system) && [ "$copy" != "$qemu" ]; do
		[ "$SECONDS" -lt "$end" ] || return
	done
	kill -STOP "$copy"
}

# A program in the guest that keeps a token in a variable, and writes it down when it is asked to.
hold_token() {
	sh_in "$1" "cat >/run/holder <<'END'
v=\$1; echo \$\$ >/run/holder.pid; trap 'echo \$v >/run/answer' USR1
while :; do sleep 0.1; done
END
rm -f /run/holder.pid; sh /run/holder $2 >/dev/null 2>&1 &
until [ -s /run/holder.pid ]; do sleep 0.1; done"
}
token_of() {
	sh_in "$1" 'rm -f /run/answer; kill -USR1 $(cat /run/holder.pid); until [ -s /run/answer ]; do sleep 0.1; done; cat /run/answer'
}
drop_token() { sh_in "$1" 'kill -9 $(cat /run/holder.pid)'; }

# clock_is_right NAME: to the second
clock_is_right() {
	local before guest after
	before=$(date +%s%N)
	guest=$(sh_in "$1" 'date +%s') || return
	after=$(date +%s%N)
	# The guest tells whole seconds, of some moment between the two.
	if [ "$guest" -lt $((before / 1000000000 - 1)) ] || [ "$guest" -gt $((after / 1000000000 + 1)) ]; then
		echo "the clock of $1 says $guest between $before and $after"
		return 1
	fi
}

wrong_use() {
	fails 2 'want the name of a machine' snapshot && fails 2 'want the name of a machine' snapshot a b c &&
		fails 2 'is no name for a machine' snapshot A && fails 2 'a snapshot is named as a machine is' snapshot a ../b &&
		fails 2 'want the name of one machine' snapshot a b --ls && fails 2 '--rm goes with no other option' snapshot a --rm b --ls &&
		fails 2 '--rm needs a value' snapshot a --rm && fails 2 'unknown option --nosuch' snapshot a --nosuch &&
		fails 2 'want the name of a machine' restore && fails 2 'a snapshot is named as a machine is' restore a .new &&
		fails 2 'unknown option --json' restore a --json && fails 2 'unknown option -x' fork a b -x &&
		fails 2 'want the name of a machine, one for the new machine' fork a && fails 2 'is no name for a machine' fork a B &&
		fails 1 'there is no machine box' snapshot box && fails 1 'there is no machine box' snapshot box --ls &&
		fails 1 'there is no machine box' restore box && fails 1 'there is no machine box' fork box twin &&
		fails 1 'there is no machine box' fork box twin one && same "$(p ls)" 'there are no machines: postern up NAME starts one'
}

# Memory and disk are as they were; what ran goes on in the machine, and is there again after a restore.
taken_back() {
	up web -i server && hold_token web before && sh_in web 'echo before >/root/token; echo before >/run/token' || return
	save web first && contains "$(cat "$work/out")" 'snapshot first of web took' && same "$(names web)" first || return
	same "$(token_of web)" before && drop_token web && hold_token web after &&
		sh_in web 'echo after >/root/token; echo after >/run/token; sync' && same "$(token_of web)" after || return
	same "$(p restore web first)" 'web is as it was at the snapshot first' && same "$(token_of web)" before &&
		same "$(sh_in web 'cat /root/token /run/token')" $'before\nbefore' && clock_is_right web && same "$(state web)" 'up: null' || return
	contains "$(sh_in web 'curl -s http://127.0.0.1/')" '<html' && sh_in web 'echo more >>/root/token; sync; cat /root/token' >"$work/more" &&
		same "$(cat "$work/more")" $'before\nmore'
}

# The newest unless one is named; as often as one likes.
numbers() {
	sh_in web 'echo 1 >/root/token' && save web && sh_in web 'echo 2 >/root/token' && save web && same "$(names web)" 'first 1 2' &&
		same "$(p restore web)" 'web is as it was at the snapshot 2' && same "$(sh_in web 'cat /root/token')" 2 || return
	p restore web 1 >"$work/out" && same "$(sh_in web 'cat /root/token')" 1 && p restore web 1 >"$work/out" &&
		same "$(sh_in web 'cat /root/token')" 1 || return
	fails 1 'the machine web has a snapshot 1 already: postern snapshot web --rm 1 removes it' snapshot web 1 &&
		fails 1 'the machine web has no snapshot nosuch: postern snapshot web --ls lists' restore web nosuch &&
		fails 1 'the machine web has no snapshot nosuch' snapshot web --rm nosuch || return
	contains "$(p snapshot web --ls)" 'NAME                     MADE                     ON DISK' &&
		p snapshot web --ls --json | jq -e '.snapshots[0] | .name == "first" and .image == "server" and .memory_mib == 512 and .bytes > 1000000' >/dev/null &&
		p snapshot web --rm 1 && same "$(names web)" 'first 2' && p snapshot web --json 2>/dev/null | jq -e '.name == "3" and .paused_ms > 0' >/dev/null
}

# The disk of one that was restored and saved again holds all that was written.
saved_again() {
	p restore web first >"$work/out" && sh_in web 'head -c 3000000 /dev/zero | tr "\0" x >/root/big; sync; echo again >/root/token' && save web again &&
		p snapshot web --rm first && sh_in web 'rm /root/big; sync' && p restore web again >"$work/out" &&
		same "$(sh_in web 'echo 3 >/proc/sys/vm/drop_caches; tr -d x </root/big | wc -c; wc -c </root/big; cat /root/token')" $'0\n3000000\nagain'
}

forks() {
	local web one two
	hold_token web shared && p fork web one 2>"$work/err" >"$work/out" && contains "$(cat "$work/err")" 'starting one from web as it is now' &&
		contains "$(cat "$work/out")" 'one is up after' && same "$(names one)" fork && p fork one two fork 2>/dev/null >"$work/out" || return
	same "$(names two)" fork && same "$(token_of web) $(token_of one) $(token_of two)" 'shared shared shared' || return
	web=$(random_of web) && one=$(random_of one) && two=$(random_of two) || return
	if [ "$web" = "$one" ] || [ "$one" = "$two" ] || [ "$web" = "$two" ]; then
		echo "$web, $one, $two"
		return 1
	fi
	clock_is_right web && clock_is_right one && clock_is_right two || return
	sh_in one 'echo one >/root/token; sync' && sh_in two 'echo two >/root/token; sync; kill -9 $(cat /run/holder.pid)' &&
		same "$(sh_in web 'cat /root/token') $(sh_in one 'cat /root/token') $(sh_in two 'cat /root/token')" 'again one two' &&
		same "$(token_of web) $(token_of one)" 'shared shared' || return
	# Each goes on without those that it came from.
	p down web && same "$(sh_in one 'cat /root/token')" one && p restore one >"$work/out" && same "$(sh_in one 'cat /root/token')" again &&
		save one later && p down one && p restore two fork >"$work/out" && same "$(sh_in two 'cat /root/token')" again && same "$(token_of two)" shared &&
		p reset two && contains "$(sh_in two 'cat /root/token' 2>&1)" 'No such file' && same "$(names two)" fork && p down two
}

# Whoever types reboot in one that was restored gets the machine that was up then.
reboots() {
	up web -i server && save web && p restore web >"$work/out" && sh_in web 'echo stays >/root/token; sync' && p exec -n web -- systemctl reboot 2>/dev/null
	until_so 60 is_state web restarting && fails 1 'the machine web is restarting' snapshot web || return
	until_so 200 p exec -n web -- true && same "$(sh_in web 'cat /root/token')" stays || return
	until_so 200 sh_in web 'systemctl is-active nginx' && p restore web >"$work/out" && contains "$(sh_in web 'cat /root/token' 2>&1)" 'No such file'
}

# Of the disk that its own stands on, in the template.
template_gone() {
	p template rm server >"$work/out" && contains "$(cat "$work/out")" 'snapshots of machines stood on its disk and can'"'"'t be used any more' &&
		p snapshot web --ls --json | jq -e '.snapshots[-1].reason | startswith("its disk stands on")' >/dev/null &&
		contains "$(p snapshot web --ls)" 'no    its disk stands on that of a template, which was removed' &&
		fails 1 'the machine web can'"'"'t be saved, for its disk stands on that of a template, which was removed: postern reset web' snapshot web &&
		fails 1 'the machine web can'"'"'t be saved' fork web twin && fails 1 'its disk stands on that of a template, which was removed' restore web &&
		same "$(state web)" 'up: null' && sh_in web 'cat /bin/* >/dev/null; curl -s http://127.0.0.1/' >"$work/page" &&
		contains "$(cat "$work/page")" '<html' && p down web
}

# What is begun while a disk is frozen waits, and is not refused.
go_on_beginning() {
	local n=0 saving
	up box -i server || return
	p snapshot box >"$work/out" 2>"$work/err" &
	saving=$!
	while [ -d "/proc/$saving" ]; do
		p exec -n box -- sh -c 'echo x >>/root/begun' || return
		n=$((n + 1))
	done
	wait "$saving" && [ "$n" -gt 1 ] && same "$(sh_in box 'wc -l </root/begun')" "$n" && p down box
}

# A command that runs on while the machine is saved loses nothing.
goes_on() {
	local status=0 line i=0
	up box || return
	p exec -n box -- sh -c 'i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo $i; sleep 0.02; done' >"$work/lines" 2>"$work/err2" &
	local command=$!
	until_so 60 runs_operations box 1 && save box && save box || return
	kill -0 "$command" || { echo 'it ended before'; return 1; }
	wait "$command" || status=$?
	same "$status" 0 && same "$(wc -l <"$work/lines")" 300 || return
	while read -r line; do
		i=$((i + 1))
		same "$line" "$i" || return
	done <"$work/lines"
	p restore box >"$work/out" && nothing_runs box && p exec -n box -- ps >"$work/ps" && ! grep 'lt 300' "$work/ps"
}

# Who is in it is told, and no word of his comes from before.
told() {
	local command status=0
	p exec -n box -- sh -c 'while :; do echo x; done' >"$work/flood" 2>"$work/err2" &
	command=$!
	until_so 60 runs_operations box 1 && p restore box >"$work/out" || return
	wait "$command" || status=$?
	same "$status" 125 && contains "$(cat "$work/err2")" 'the guest started anew while it ran: its outcome is unknown' &&
		nothing_runs box && same "$(sh_in box 'echo on')" on
}

# It flows before and after, and all that comes are zeros. $work/came: how many bytes, and how many others.
under_a_flood() {
	local command reader
	mkfifo "$work/zeros"
	"$POSTERN" exec -n box -- cat /dev/zero >"$work/zeros" 2>"$work/err2" &
	command=$!
	perl -e 'while (sysread STDIN, $b, 65536) { $n += length $b; $others += $b =~ tr/\0//c;
		open F, ">", "$ARGV[0].new"; printf F "%d %d\n", $n, $others; close F; rename "$ARGV[0].new", $ARGV[0] }' \
		"$work/came" <"$work/zeros" >/dev/null 2>&1 &
	reader=$!
	until_so 60 flows && save box flood && until_so 60 flows || return
	kill "$command"
	wait "$command"
	wait "$reader"
	same "$(cut -d' ' -f2 "$work/came")" 0 && until_so 20 nothing_runs box && p restore box flood >"$work/out" && same "$(sh_in box 'echo on')" on && nothing_runs box
}
# More than all pipes on the way hold has come since the last time that this held.
flows() {
	local n
	n=$(cut -d' ' -f1 "$work/came") && [ $((n - ${seen-0})) -gt 4000000 ] && seen=$n
}

# One thing at a time; who asks for the same is told the same.
one_at_a_time() {
	local first same
	p snapshot box busy >"$work/first" 2>&1 &
	first=$!
	stop_copy box || return
	p snapshot box busy >"$work/same" 2>&1 &
	same=$!
	fails 1 'the machine box is busy with a snapshot: try again when that is done' restore box || return
	kill -CONT "$copy"
	wait "$first" && wait "$same" && contains "$(cat "$work/first")" 'snapshot busy of box took' && contains "$(cat "$work/same")" 'snapshot busy of box took'
}
# killed_caller WHAT...: in the middle
killed_caller() {
	local caller
	"$POSTERN" "$@" >"$work/out" 2>"$work/err" &
	caller=$!
	stop_copy box && kill -KILL "$caller" && gone "$caller" 20 && kill -CONT "$copy"
}
has_snapshot() { [[ " $(names "$1") " == *" $2 "* ]]; }
caller_of_snapshot() {
	killed_caller snapshot box unheard && same "$(sh_in box 'echo on')" on && until_so 60 has_snapshot box unheard && p restore box unheard >"$work/out" && same "$(sh_in box 'echo on')" on
}
caller_of_fork() {
	killed_caller fork box twin && until_so 120 test ! -e "$machines/twin" && same "$(sh_in box 'echo on')" on && same "$(state box)" 'up: null'
}

# The QEMU that it is copied to is killed: there is no half snapshot, and the machine goes on.
copy_killed() {
	local status=0 before saving
	before=$(names box)
	p snapshot box never >"$work/out" 2>"$work/err" &
	saving=$!
	stop_copy box && kill -KILL "$copy" || return
	wait "$saving" || status=$?
	same "$status" 1 && contains "$(cat "$work/err")" 'QEMU was killed by signal 9' && same "$(names box)" "$before" &&
		same "$(find "$machines/box/snapshots" -name '.*')" '' &&
		same "$(sh_in box 'echo on')" on && save box never && p snapshot box --rm never
}

killed_keeper() {
	local qemu keeper caller status=0
	qemu=$(qemu_of box)
	keeper=$(keeper_of box)
	p snapshot box half >"$work/out" 2>"$work/err" &
	caller=$!
	stop_copy box && kill -KILL "$keeper" || return
	wait "$caller" || status=$?
	same "$status" 1 && contains "$(cat "$work/err")" 'the keeper of the machine box was killed' && gone "$qemu" 20 && gone "$copy" 20 &&
		until_so 20 is_state box 'left behind' || return
	# What was whole can still be started from.
	p fork box saved busy 2>/dev/null >"$work/out" && same "$(sh_in saved 'echo on')" on && p down --all && same "$(ls -A "$machines")" ''
}

# Another size of memory than the template's: it was booted.
other_memory() {
	up small --memory 160 && sh_in small 'mount -t tmpfs none /root; echo token >/root/token' && save small && sh_in small 'rm /root/token' &&
		p restore small >"$work/out" && same "$(sh_in small 'cat /root/token')" token && p fork small twin 2>/dev/null >"$work/out" &&
		same "$(sh_in twin 'cat /root/token')" token && same "$(p ls --json | jq -c '[.machines[].memory_mib]')" '[160,160]' && p down --all
}

# A machine that has ended keeps its snapshots until it is cleared away.
ended() {
	local keeper
	up box && sh_in box 'mount -t tmpfs none /root; echo token >/root/token' && save box good || return
	keeper=$(keeper_of box)
	p exec -n box -- poweroff -f >"$work/out" 2>&1
	gone "$keeper" 60 && fails 1 'postern fork box NEW SNAPSHOT begins another from its snapshots, with which postern down box clears it away' restore box && fails 1 'the machine box has ended' snapshot box &&
		fails 1 'the machine box has ended' fork box again && same "$(names box)" good && p fork box again good 2>/dev/null >"$work/out" &&
		same "$(sh_in again 'cat /root/token')" token && fails 1 'has no snapshot nosuch' fork box more nosuch &&
		fails 1 'there is a machine again already' fork box again good && p down --all && same "$(ls -A "$machines")" ''
}

# Its keeper was killed before there was anything to tell about it.
never_up() {
	mkdir "$machines/box" && : >"$machines/box/lock" && fails 1 'the keeper of the machine box was killed' fork box twin one &&
		same "$(ls -A "$machines")" box && p down box
}

# small_disk MIB: machines are on a disk of that size
small_disk() {
	mkdir -p "$machines"
	mount -t tmpfs -o "size=$1m" none "$machines"
}
no_room() {
	small_disk 100 || return
	up box && fails 1 'MiB free and a snapshot may take 320: make room, or remove other snapshots' snapshot box && same "$(names box)" '' &&
		same "$(sh_in box 'echo on')" on && p down box
	local status=$?
	p down --all >/dev/null 2>&1
	umount "$machines"
	return "$status"
}
# It fills while the machine is saved.
disk_fills() {
	local status=0 saving
	small_disk 400 || return
	up box || status=1
	p snapshot box >"$work/out" 2>"$work/err" &
	saving=$!
	until_so 60 test -e "$machines/box/snapshots/.new"
	head -c 500M /dev/zero >"$machines/filler" 2>/dev/null
	wait "$saving" && status=1
	[ "$status" = 0 ] && contains "$(cat "$work/err")" "the host's disk is full, so there is no snapshot: make room" && same "$(names box)" '' &&
		same "$(sh_in box 'echo on')" on && rm "$machines/filler" && save box && p restore box >"$work/out" && same "$(sh_in box 'echo on')" on && p down box
	status=$?
	p down --all >/dev/null 2>&1
	umount "$machines"
	return "$status"
}

# QEMU has stopped it, for its own disk is full: it can't be asked to freeze that.
stands_still() {
	local status=0
	small_disk 100 || return
	up web -i server && head -c 500M /dev/zero >"$machines/filler" 2>/dev/null
	"$POSTERN" exec -n web -- sh -c 'head -c 200M /dev/urandom >/root/big; sync' >"$work/out" 2>&1 &
	until_so 60 stands_full web && fails 1 "the machine web stands still: the host's disk is full" snapshot web || status=1
	p down web
	wait $!
	p down --all >/dev/null 2>&1
	umount "$machines"
	return "$status"
}
stands_full() { contains "$(state "$1")" "the host's disk is full"; }

check "wrong use" wrong_use
check "a machine is taken back" taken_back
check "snapshots by number" numbers
check "a restored machine is saved again" saved_again
check "forks share a beginning and nothing else" forks
check "a restored machine reboots" reboots
check "the template is gone" template_gone
check "commands begin while it is saved" go_on_beginning
check "commands go on while it is saved" goes_on
check "commands are told of a restore" told
check "a machine is saved under a flood" under_a_flood
check "one thing at a time" one_at_a_time
check "the caller of a snapshot is killed" caller_of_snapshot
check "the caller of a fork is killed" caller_of_fork
check "the copy is killed" copy_killed
check "the keeper is killed meanwhile" killed_keeper
check "another size of memory" other_memory
check "a machine that has ended" ended
check "a machine that never was up" never_up
check "no room for a snapshot" no_room
check "the disk fills up" disk_fills
check "a machine that stands still" stands_still
finish
