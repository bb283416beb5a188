#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317,SC2016 # the checks are called by name; guests expand their own variables
# Machines with names: up, used by many, new again, down, and every way in which they end.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
requires_image mini
requires_image server
requires_program pgrep
requires_program jq
requires_program perl
requires_program prlimit

named_machines

none_there() {
	same "$(p ls)" 'there are no machines: postern up NAME starts one' &&
		same "$(p ls --json | jq -c .)" '{"machines":[]}' &&
		fails 125 'there is no machine box: postern up box makes one' exec -n box -- true &&
		fails 1 'there is no machine box' reset box &&
		fails 1 'there is no machine box' down box && fails 1 'there is no machine box' cp box:/etc "$work/etc"
}

wrong_use() {
	local name
	for name in -x '' A .x a/b "a b" ../x "$(printf 'a%.0s' {1..64})"; do
		fails 2 '' up "$name" || return
	done
	for name in . .. ../images ./../../images .exec.x/.. .exec.x/../.. '' /; do
		fails 2 'is no name for a machine' down "$name" || return
	done
	[ -d "$POSTERN_HOME/images/mini" ] && [ -d "$POSTERN_HOME/templates" ] || return
	fails 2 'is no name for a machine' up Box && fails 2 'want one name' up && fails 2 'want one name' up a b &&
		fails 2 '--memory 12: want MiB' up --memory 12 a && fails 2 'want the names' down &&
		fails 2 'want what to copy' cp a && fails 2 'one of the two is NAME:PATH' cp a b &&
		fails 2 'one of the two is NAME:PATH' cp a:/b c:/d && fails 2 'begins with /' cp a:b c &&
		fails 125 '-i makes a new machine, -n is one that runs' exec -n box -i mini -- true &&
		fails 125 '-i makes a new machine, -n is one that runs' shell -n box -i mini &&
		fails 1 'there is no image nosuch' up box -i nosuch && same "$(ls "$machines")" ''
}

# The caller's pipe is not held by the keeper, which is in a session of its own.
is_up() {
	local out keeper
	out=$(p up box 2>"$work/err") || return
	contains "$out" 'box is up after ' && contains "$(cat "$work/err")" 'starting box from the image mini' || return
	keeper=$(keeper_of box)
	same "$(ps -o sid= -p "$keeper" | tr -d ' ')" "$keeper" && same "$(ps -o tty= -p "$keeper" | tr -d ' ')" '?' &&
		same "$(readlink "/proc/$keeper/cwd")" / && same "$(stat -c %a "$machines/box")" 700 || return
	contains "$(p ls)" 'box              mini       up             256' && same "$(state box)" 'up: null' &&
		fails 1 'there is a machine box already' up box
}

commands_share_it() {
	p exec -n box -- sh -c 'echo kept >/root/kept' &&
		same "$(p exec -n box -w /root -e A=b -- sh -c 'cat kept; echo $A; pwd')" $'kept\nb\n/root' &&
		same "$(printf 'in\0put' | p exec -n box --stdin -- cat | od -c)" "$(printf 'in\0put' | od -c)" &&
		fails 3 '' exec -n box -- sh -c 'exit 3' && fails 124 'sleep was ended after 0.5 s' exec -n box -t 0.5 -- sleep 100 &&
		fails 127 'nosuch: not found in the guest (image mini)' exec -n box -- nosuch &&
		fails 125 '-u nosuch:' exec -n box -u nosuch -- true &&
		same "$(p exec -n box -u 65534 -- id -u)" 65534
}

many_at_once() {
	local i pids=()
	for i in 1 2 3 4 5 6 7 8; do
		p exec -n box -- sh -c "head -c 3000000 /dev/zero | tr '\\0' $i" >"$work/many.$i" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || return
	done
	for i in 1 2 3 4 5 6 7 8; do
		same "$(tr -d "$i" <"$work/many.$i" | wc -c) $(wc -c <"$work/many.$i")" '0 3000000' || return
	done
	nothing_runs box
}

# Starts a command in the box that runs for ever; sets caller once it does.
start_caller() {
	rm -f "$work/fifo"
	mkfifo "$work/fifo"
	"$POSTERN" exec -n box -- sh -c 'echo up; exec sleep 54321' >"$work/fifo" 2>"$work/caller.err" &
	caller=$!
	exec 4<"$work/fifo"
	read -r -t 60 _ <&4
}

killed_caller() {
	local signal
	for signal in KILL TERM INT; do
		start_caller || return
		kill -"$signal" "$caller"
		gone "$caller" 20 || return
		exec 4<&-
		until_so 20 nothing_runs box || return
		same "$(p exec -n box -- sh -c 'cat /proc/[0-9]*/cmdline | grep -c "5432[1]"')" 0 || return
	done
}

copies() {
	local d=$work/copies
	mkdir -p "$d/tree/a b/deep" "$d/got"
	echo one >"$d/tree/one"
	echo 'two' >"$d/tree/a b/deep/two"
	ln -s one "$d/tree/link"
	head -c 3000000 /dev/urandom >"$d/tree/big"
	chmod 640 "$d/tree/one"
	p cp "$d/tree" box:/srv-tree && p cp box:/srv-tree "$d/back" && diff -r --no-dereference "$d/tree" "$d/back" &&
		same "$(stat -c %a "$d/back/one")" 640 || return
	# Into a folder that is there, also through a link; its content by /.
	p exec -n box -- sh -c 'mkdir -p /t/in; ln -s in /t/link' && p cp "$d/tree" box:/t/in && p cp "$d/tree/one" box:/t/link &&
		p cp "$d/tree/." box:/t/in/flat && p cp "$d/tree/one" box:/t/new-name && p cp "$d/tree/big" box:/t/new-name || return
	same "$(p exec -n box -- sh -c 'cd /t; cat in/tree/one in/one in/flat/one; wc -c <new-name')" $'one\none\none\n3000000' || return
	p cp box:/t/in/one "$d/got" && same "$(cat "$d/got/one")" one && p cp box:/t/in/tree/big "$d/got/one" &&
		cmp "$d/got/one" "$d/tree/big" && p cp box:/t/in "$d/got" && same "$(cat "$d/got/in/flat/a b/deep/two")" two || return
	fails 1 'there is no such folder' cp "$d/tree/one" box:/t/nosuch/ && fails 1 'there is no such folder' cp box:/t/in "$d/nosuch/" &&
		fails 1 'is there already' cp box:/t/in "$d/got" && fails 1 'a folder came, and' cp box:/t/in "$d/got/one" &&
		cmp "$d/got/one" "$d/tree/big" && fails 1 'nosuch' cp "$d/nosuch" box:/t && fails 1 'nosuch' cp box:/nosuch "$d/x" || return
	same "$(find "$d/got" -maxdepth 1 | sort)" "$d/got"$'\n'"$d/got/in"$'\n'"$d/got/one" || return
	# What is no file and no folder stays as it is; through a link to a folder a copy goes by / alone.
	mkdir "$d/mine"
	mkfifo "$d/fifo"
	ln -s mine "$d/out"
	fails 1 'is there already' cp box:/t/in/one "$d/fifo" && [ -p "$d/fifo" ] &&
		fails 1 'is there already' cp box:/t/in/one "$d/out" && same "$(ls -A "$d/mine")" '' &&
		p cp box:/t/in/one "$d/out/" && same "$(cat "$d/mine/one")" one
}

# A guest that does not tell what is there gets nothing.
copy_to_a_busy_guest() {
	local i pids=() status=0
	for i in {1..16}; do
		"$POSTERN" exec -n box -- sleep 54321 >"$work/busy.$i" 2>&1 &
		pids+=($!)
	done
	until_so 60 runs_operations box 16 || return
	fails 1 '16 commands run already' cp "$work/copies/tree/one" box:/t/in || status=1
	kill "${pids[@]}"
	wait "${pids[@]}"
	until_so 20 nothing_runs box && return "$status"
}

# Who is in it sees it start anew, and needs no new connection.
reset_makes_new() {
	local status=0
	p exec -n box -- sh -c 'echo dirt >/root/dirt' && start_caller && p reset box || return
	gone "$caller" 20 || return
	exec 4<&-
	wait "$caller" || status=$?
	same "$status" 125 && contains "$(cat "$work/caller.err")" 'the guest started anew while it ran: its outcome is unknown' &&
		same "$(p exec -n box -- sh -c 'ls /root && echo nothing')" nothing && same "$(state box)" 'up: null'
}

# While nobody is at the guest's end, callers wait for who comes.
guest_reboots() {
	p exec -n box -- sh -c 'echo dirt >/root/dirt; sync; reboot -f' 2>/dev/null
	same "$(p exec -n box -- sh -c 'ls /root && echo nothing')" nothing && is_state box up
}
server_reboots() {
	p up box -i server 2>/dev/null >"$work/out" || return
	p exec -n box -- systemctl reboot 2>/dev/null
	until_so 60 is_state box restarting || return
	# It is told what did not run, which is not so of what the old guest took with it.
	until p exec -n box -- true 2>"$work/err"; do
		contains "$(cat "$work/err")" 'the system is not up yet' || return
		read -r -t 0.2 <> <(:) || true
	done
	is_state box up && p down box
}

ends() {
	local qemu
	qemu=$(qemu_of box)
	p down box && same "$(ls -A "$machines")" '' && gone "$qemu" 20
}

# Ends the guest of a new box: dies_by COMMAND... ; wants that SENTENCE is how postern tells it.
dies() {
	local sentence=$1 keeper
	shift
	p up box "${up_args[@]}" 2>"$work/err" >"$work/out" || { cat "$work/err"; return 1; }
	keeper=$(keeper_of box)
	"$@" >"$work/dying" 2>&1
	gone "$keeper" 200 || { cat "$work/dying"; return 1; }
	contains "$(state box)" "ended: $sentence" && fails 125 "the machine box has ended: $sentence" exec -n box -- true &&
		fails 1 "the machine box has ended: $sentence" reset box && fails 1 'postern down box clears it away' up box &&
		p down box && same "$(ls -A "$machines")" ''
}

up_args=()
kill_qemu() { pkill -KILL -P "$(keeper_of box)" qemu-system; }
# Who is in the middle of something is told the same.
kill_qemu_under_a_flood() {
	local flood
	p exec -n box -- cat /dev/zero 2>"$work/flood.err" | head -c 1000000 >/dev/null
	p exec -n box -- cat /dev/zero >/dev/null 2>"$work/flood.err" &
	flood=$!
	until_so 60 runs_operations box 1 || return
	kill_qemu
	wait "$flood"
}
by_killed_qemu() {
	dies 'somebody on the host ended it: QEMU was killed by signal 9 (Killed)' kill_qemu_under_a_flood &&
		contains "$(cat "$work/flood.err")" 'the machine box has ended: somebody on the host ended it'
}
by_panic() { dies "the guest's kernel stopped: " p exec -n box -- sh -c 'echo c >/proc/sysrq-trigger'; }
by_poweroff() { dies 'the guest powered off' p exec -n box -- poweroff -f; }

# Nothing is left that the kernel could kill: the agent is not to be.
fill_memory() {
	p exec -n box -- sh -c 'mkdir -p /full; mount -t tmpfs -o size=100% none /full; while :; do cat /dev/zero >/full/$RANDOM; done'
}
by_no_memory() {
	up_args=(--memory 96)
	dies "the guest's kernel stopped: " fill_memory
}

by_killed_agent() {
	up_args=(-i server)
	dies "the guest's agent is gone: the machine runs, but the guest closed the channel" p exec -n box -- sh -c 'kill -9 -1'
}
# Nobody asks the keeper for anything meanwhile.
by_agent_that_dies_alone() {
	up_args=(-i server)
	dies "the guest's agent is gone: the machine runs, but the guest closed the channel" \
		p exec -n box -- sh -c '(sleep 2; kill -9 -1) >/dev/null 2>&1 &'
}

# Keeper and QEMU go together; the folder is found, and hinders nobody.
killed_keeper() {
	local keeper qemu status=0
	p up box 2>/dev/null >"$work/out" && start_caller || return
	keeper=$(keeper_of box)
	qemu=$(qemu_of box)
	kill -KILL "$keeper"
	gone "$qemu" 20 && gone "$caller" 20 || return
	exec 4<&-
	wait "$caller" || status=$?
	same "$status" 125 && contains "$(cat "$work/caller.err")" 'the keeper of the machine box was killed' &&
		same "$(state box)" 'left behind: null' && ! keeper_of box >/dev/null &&  fails 1 'the keeper of the machine box was killed' reset box &&
		p up box 2>/dev/null >"$work/out" && same "$(p exec -n box -- echo new)" new || return
	kill -KILL "$(keeper_of box)"
	until_so 20 is_state box 'left behind' && p down --all && same "$(ls -A "$machines")" ''
}

stopped_keeper() {
	local keeper
	p up box 2>/dev/null >"$work/out" || return
	keeper=$(keeper_of box)
	kill -STOP "$keeper"
	contains "$(state box)" 'busy: the machine box: its keeper does not answer'
	local status=$?
	kill -CONT "$keeper"
	[ "$status" = 0 ] && same "$(p exec -n box -- echo on)" on && p down box
}

# hold FILE: an open file description lock, as postern takes it; sets holder
hold() {
	rm -f "$work/held"
	mkfifo "$work/held"
	perl -MFcntl -e '
		open my $f, "+>", $ARGV[0] or die; my $all = pack("s s x4 q q l x4", F_WRLCK, 0, 0, 0, 0); fcntl $f, 37, $all or die "$!";
		$| = 1; print "held\n"; sleep 1000' "$1" >"$work/held" 2>&1 &
	holder=$!
	read -r -t 20 _ <"$work/held"
}

# What a killed exec leaves is cleared too; one that runs is not.
leftovers_of_exec() {
	mkdir "$machines/.exec.gone00"
	: >"$machines/.exec.gone00/disk.qcow2"
	mkdir "$machines/.exec.runs00"
	hold "$machines/.exec.runs00/lock" || return
	contains "$(p ls)" '.exec.gone00' && contains "$(p ls)" 'left behind' && p down --all && same "$(ls -A "$machines")" .exec.runs00 &&
		fails 1 '' down .exec.runs00 && same "$(ls -A "$machines")" .exec.runs00 || return
	kill "$holder"
	wait "$holder"
	# Where it can't be told whether somebody holds it, it stays too.
	rm "$machines/.exec.runs00/lock"
	ln -s lock "$machines/.exec.runs00/lock"
	p down --all && same "$(ls -A "$machines")" .exec.runs00 && rm "$machines/.exec.runs00/lock" &&
		p down --all && same "$(ls -A "$machines")" ''
}

# What is no machine's is nobody's to remove.
other_files() {
	mkdir "$machines/Mine"
	touch "$machines/README" "$machines/mine"
	ln -s ../images "$machines/link"
	same "$(p ls --json | jq -c .)" '{"machines":[]}' && p down --all && fails 1 'there is no machine mine' down mine &&
		fails 1 'there is no machine link' down link && same "$(cd "$machines" && echo *)" 'Mine README link mine' &&
		rm -r "${machines:?}/"*
}

# connect COUNT SOCKET: so many connections that say nothing; sets connections
connect() {
	rm -f "$work/connected"
	mkfifo "$work/connected"
	perl -MSocket -MIO::Socket::UNIX -e '
		my ($n, $path, @all) = @ARGV;
		for (1 .. $n) { push @all, IO::Socket::UNIX->new(Peer => $path) or die "$path: $!" }
		$| = 1; print "connected\n"; sleep 1000' "$1" "$2" >"$work/connected" 2>&1 &
	connections=$!
	read -r -t 20 _ <"$work/connected"
}

# Of those who say nothing to the keeper, and of those who are as many as it takes.
silent_callers() {
	p up box 2>/dev/null >"$work/out" && connect 20 "$machines/box/control" || return
	same "$(state box)" 'up: null' && p reset box || return
	kill "$connections"
	wait "$connections"
	connect 32 "$machines/box/socket" && until_so 20 has_callers box 32 || return
	fails 125 'the machine box has 32 callers, as many as it takes: wait until one is gone' exec -n box -- true || return
	kill "$connections"
	wait "$connections"
	p exec -n box -- true && p down box
}
has_callers() { [ "$(p ls --json | jq ".machines[] | select(.name == \"$1\").callers")" = "$2" ]; }

# A keeper that may open no more waits, and takes no processor time for that.
few_descriptors() {
	local keeper before after
	p up box 2>/dev/null >"$work/out" || return
	keeper=$(keeper_of box)
	prlimit --pid "$keeper" --nofile="$(find "/proc/$keeper/fd" -type l | wc -l):" && connect 3 "$machines/box/socket" || return
	before=$(cpu_ticks "$keeper")
	! timeout 3 "$POSTERN" exec -n box -- true 2>/dev/null || return
	after=$(cpu_ticks "$keeper")
	[ $((after - before)) -lt 50 ] || { echo "$((after - before)) ticks"; return 1; }
	prlimit --pid "$keeper" --nofile=1024: || return
	kill "$connections"
	wait "$connections"
	p exec -n box -- true && p down box
}
cpu_ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

# up_ends SIGNAL STATUS: while it makes its machine
up_ends() {
	local up qemu status=0
	"$POSTERN" up slow --memory 128 >"$work/out" 2>"$work/err" &
	up=$!
	until_so 60 qemu_of slow || return
	qemu=$(qemu_of slow)
	kill -"$1" "$up"
	gone "$up" 30 || return
	wait "$up" || status=$?
	same "$status" "$2" && gone "$qemu" 20 && until_so 20 test ! -e "$machines/slow"
}
up_killed() { up_ends KILL 137; }
up_interrupted() { up_ends INT 130; }

# At the moment that it comes up: then it is up, or nothing is.
up_interrupted_late() {
	local i up status
	for i in 1 2 3 4; do
		"$POSTERN" up box >"$work/out" 2>"$work/err" &
		up=$!
		until [ -e "$machines/box/console.log" ]; do [ -d "/proc/$up" ] || return; done
		[ "$i" = 1 ] || until compgen -G "$machines/box/*machine.json*" >/dev/null || [ ! -d "/proc/$up" ]; do :; done
		kill -TERM "$up" 2>/dev/null
		gone "$up" 60 || return
		status=0
		wait "$up" || status=$?
		[ "$status" != 0 ] || p down box || return
		[ "$status" = 0 ] || same "$status" 143 || return
		same "$(ls -A "$machines")" '' || return
	done
}

down_while_starting() {
	local up status=0
	"$POSTERN" up slow --memory 128 >"$work/out" 2>"$work/err" &
	up=$!
	until_so 60 qemu_of slow && same "$(state slow)" 'starting: null' &&
		fails 125 'the machine slow is starting' exec -n slow -- true && p down slow || return
	wait "$up" || status=$?
	same "$status" 1 && contains "$(cat "$work/err")" 'postern down ended it while it started' && same "$(ls -A "$machines")" ''
}

other_memory() {
	p up small --memory 160 >"$work/out" 2>"$work/err" &&
		contains "$(cat "$work/err")" 'booted, not started from a template: the template has another size of memory' || return
	same "$(p ls --json | jq '.machines[].memory_mib')" 160 &&
		[ "$(p exec -n small -- awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)" -lt 160 ] && p down small
}

# Writes to the disk of a server are gone after a reset; two machines don't meet.
servers() {
	p up web -i server 2>/dev/null >"$work/out" && p up box 2>/dev/null >"$work/out" || return
	p exec -n web -- sh -c 'echo hello >/var/www/html/index.html; curl -s http://127.0.0.1/' >"$work/page" &&
		same "$(cat "$work/page")" hello && p cp "$POSTERN" web:/root && p reset web &&
		contains "$(p exec -n web -- curl -s http://127.0.0.1/)" '<html' && same "$(p exec -n web -- sh -c 'ls /root && echo nothing')" nothing &&
		same "$(p exec -n box -- hostname)" mini && p down web box && same "$(ls -A "$machines")" ''
}

# Longer than the address of a socket may be.
deep_home() {
	local home=$POSTERN_HOME deep status
	deep=$work/$(printf 'deep%.0s' {1..40})
	mkdir "$deep"
	mv "$home/templates" "$deep"
	ln -s "$(readlink -f "$home/images")" "$deep/images"
	cd "$work" || return
	POSTERN_HOME=${deep##*/}
	p up box 2>/dev/null >"$work/out" && same "$(p exec -n box -- echo deep)" deep && p reset box && p down box
	status=$?
	cd - >/dev/null || return
	mv "$deep/templates" "$home"
	POSTERN_HOME=$home
	return "$status"
}

check "no machine is there" none_there
check "wrong use" wrong_use
check "a machine is up" is_up
check "commands find what others left" commands_share_it
check "many commands at once" many_at_once
check "a caller that is killed" killed_caller
check "copies" copies
check "a copy to a busy guest" copy_to_a_busy_guest
check "reset" reset_makes_new
check "the guest reboots" guest_reboots
check "down" ends
check "a server reboots" server_reboots
check "QEMU is killed" by_killed_qemu
check "the guest's kernel panics" by_panic
check "the guest powers off" by_poweroff
check "the guest has no memory left" by_no_memory
check "the agent is killed" by_killed_agent
check "the agent dies with nobody there" by_agent_that_dies_alone
check "the keeper is killed" killed_keeper
check "the keeper is stopped" stopped_keeper
check "what a killed exec left" leftovers_of_exec
check "files that are no machine's" other_files
check "callers who say nothing" silent_callers
check "few descriptors" few_descriptors
check "up is killed" up_killed
check "up is interrupted" up_interrupted
check "up is interrupted as it comes up" up_interrupted_late
check "down while it starts" down_while_starting
check "another size of memory" other_memory
check "servers with disks" servers
check "a home with a long path" deep_home
finish
