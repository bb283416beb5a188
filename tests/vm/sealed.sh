#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317,SC2016 # the checks are called by name; guests expand their own variables
# A machine has no network device, and one that was given to it is noticed.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
requires_image mini

no_nic_in_the_guest() {
	same "$(pexec -- ls /sys/class/net)" lo
}

# A QEMU that adds one is caught before the command runs.
nic_is_refused() {
	local status=0
	fake_qemu 'exec "$real" "$@" -device virtio-net-pci,romfile='
	pexec -- echo ran >"$work/out" 2>"$work/err" || status=$?
	same "$status" 125 && same "$(cat "$work/out")" "" && contains "$(cat "$work/err")" network
}

check "no network interface in the guest" no_nic_in_the_guest
check "a network device is refused" nic_is_refused
finish
