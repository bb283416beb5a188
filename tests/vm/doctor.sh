#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317,SC2016 # the checks are called by name; guests expand their own variables
# The doctor finds what is missing and says what to do; the accelerator is never taken on trust.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
requires_image mini
requires_program unshare

healthy() {
	"$POSTERN" doctor >"$work/out" && contains "$(cat "$work/out")" "QEMU emulator version"
}

empty_home() {
	local status=0
	POSTERN_HOME=$work/home "$POSTERN" doctor >"$work/out" || status=$?
	same "$status" 1 && contains "$(cat "$work/out")" "make images"
}

json_is_json() {
	requires_program python3
	"$POSTERN" doctor --json | python3 -c 'import json, sys; assert json.load(sys.stdin)["usable"]'
}

# Runs a shell text where /dev/kvm is $1: absent, or a plain file that opens and is no KVM.
with_kvm() {
	# shellcheck disable=SC2016
	unshare --mount bash -c '
		set -e
		dev=$(mktemp -d)
		mount -t tmpfs none "$dev"
		for node in null zero random urandom tty; do cp -a "/dev/$node" "$dev/"; done
		[ "$1" = absent ] || touch "$dev/kvm"
		mount --move "$dev" /dev
		rmdir "$dev"
		eval "$2"' bash "$1" "$2"
}

can_unshare() {
	with_kvm absent true 2>/dev/null
}

without_kvm() {
	# shellcheck disable=SC2016
	contains "$(with_kvm absent '"$POSTERN" doctor')" "tcg: there is no /dev/kvm" || return
	# shellcheck disable=SC2016
	same "$(with_kvm absent '"$POSTERN" doctor --json' | jq -c '.findings[] | select(.what == "accelerator") | [.found, .remedy]')" \
		'["tcg: there is no /dev/kvm, so guests are emulated","enable virtualisation on this host"]'
}

# KVM that opens and hangs costs one probe; the answer is kept, and not written again.
kvm_that_hangs() {
	fake_qemu 'case " $* " in *" kvm "*) exec sleep 100000;; esac
		exec "$real" "$@"'
	# shellcheck disable=SC2016
	with_kvm there '
		answer() { stat -c "%i %Y" "$POSTERN_HOME/accel.json"; }
		"$POSTERN" doctor
		answer >"$work/before"
		"$POSTERN" doctor
		"$POSTERN" exec -- echo ran
		answer >"$work/after"' >"$work/out"
	contains "$(cat "$work/out")" "tcg: /dev/kvm opens but does not boot" &&
		same "$(cat "$work/after")" "$(cat "$work/before")" &&
		same "$(tail -n 1 "$work/out")" ran
}

check "a host with all that is needed" healthy
check "an empty home" empty_home
check "the same for programs" json_is_json
can_unshare || { echo "# mount namespaces are not to be had"; finish; }
check "no /dev/kvm means emulation" without_kvm
check "a KVM that hangs is found out once" kvm_that_hangs
finish
