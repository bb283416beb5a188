#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317,SC2016 # the checks are called by name; guests expand their own variables
# QEMU is confined whoever starts it, and what is missing of that, or of this host's limits, is told.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
requires_image mini
requires_program setpriv

all='of QEMU: files, network, calls, privileges, limits'

# From here on as a user who owns a home with the image, and nothing else.
become_nobody() {
	local images
	images=$(readlink -f "${POSTERN_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/postern}/images")
	[ "$(id -u)" = 0 ] || { own_home; return; }
	chmod 711 "$work"
	mkdir -p "$work/theirs/images"
	cp -r "$images/mini" "$work/theirs/images/"
	cp "$POSTERN" "$work/postern"
	chown -R 65534:65534 "$work/theirs"
	POSTERN=$work/postern POSTERN_HOME=$work/theirs
	export POSTERN POSTERN_HOME
	drop='setpriv --reuid=65534 --regid=65534 --clear-groups'
}
drop=

# A machine that runs; $qemu is its QEMU.
start_one() {
	mkfifo "$work/up"
	$drop "$POSTERN" exec -- sh -c 'echo up; sleep 100000' >"$work/up" &
	read -r -t 240 _ <"$work/up" || return
	qemu=$(pgrep -P "$!" qemu-system)
}

end_one() {
	kill "$!"
	wait "$!"
	rm "$work/up"
}

confined_by_the_kernel() {
	local status
	start_one || return
	status=$(cat "/proc/$qemu/status")
	contains "$status" $'NoNewPrivs:\t1' && contains "$status" $'Seccomp:\t2' &&
		! same "$(readlink "/proc/$qemu/ns/net")" "$(readlink /proc/self/ns/net)" >/dev/null &&
		contains "$(cat "/proc/$qemu/limits")" 'Max core file size        0                    0'
	status=$?
	end_one
	return "$status"
}

doctor_sees_all() {
	cd / && contains "$($drop "$POSTERN" doctor | grep confinement)" "$all"
}

as_another_user() {
	become_nobody
	cd / && contains "$($drop "$POSTERN" doctor | grep confinement)" "$all" && confined_by_the_kernel
}

# A host that gives no namespaces away.
missing_is_told() {
	unshare --map-root-user --mount --net bash -c '
		echo 0 >/proc/sys/user/max_net_namespaces && "$POSTERN" doctor; "$POSTERN" exec -- echo ran' \
		>"$work/out" 2>&1
	contains "$(cat "$work/out")" 'of QEMU: files, calls, privileges, limits' &&
		contains "$(cat "$work/out")" "QEMU is in the host's network" &&
		contains "$(cat "$work/out")" '-> allow user namespaces' &&
		same "$(tail -n 1 "$work/out")" ran
}

few_files() {
	local status=0
	(ulimit -n 40 && "$POSTERN" exec -- true) 2>"$work/err" || status=$?
	same "$status" 125 && contains "$(cat "$work/err")" \
		'a machine needs at least 64 open files and 40 are left here: raise their limit with `ulimit -n`' ||
		return
	(ulimit -n 40 && "$POSTERN" doctor) >"$work/out" && return 1
	contains "$(cat "$work/out")" 'MISSING  open files'
}

few_processes() {
	local status=0
	become_nobody
	(ulimit -u 60 && cd / && $drop "$POSTERN" exec -- true) 2>"$work/err" || status=$?
	same "$status" 125 && contains "$(cat "$work/err")" 'a machine needs at least 80 processes and threads' &&
		contains "$(cat "$work/err")" 'end other programs of this user, or raise their limit with `ulimit -u`'
}

check "the kernel keeps QEMU confined" confined_by_the_kernel
check "doctor tells that all measures are in force" doctor_sees_all
check "an ordinary user's QEMU is confined too" as_another_user
check "a measure that is missing is told" missing_is_told
check "too few open files are told before the start" few_files
check "too few processes are told before the start" few_processes
finish
