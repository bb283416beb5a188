#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317,SC2016 # the checks are called by name; guests expand their own variables
# A machine has no network device, by QEMU's own account.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
requires_image mini
requires_program python3

# Asks a second control socket, which only this test gives to QEMU.
ask_qemu='
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
f = s.makefile("rw")
f.readline()
def call(command):
    f.write(json.dumps({"execute": command}) + "\n")
    f.flush()
    while True:
        answer = json.loads(f.readline())
        if "return" in answer:
            return answer["return"]
call("qmp_capabilities")
for bus in call("query-pci"):
    for device in bus["devices"]:
        print("%04x" % device["class_info"]["class"])
print("nics:", len(call("query-rx-filter")))
'

no_nic_by_qmp() {
	local classes
	fake_qemu 'exec "$real" "$@" -qmp "unix:$work/qmp,server=on,wait=off"'
	mkfifo "$work/up"
	"$POSTERN" exec -- sh -c 'echo up; sleep 100000' >"$work/up" &
	read -r -t 240 _ <"$work/up" || return
	classes=$(python3 -c "$ask_qemu" "$work/qmp")
	kill "$!"
	wait "$!"
	echo "PCI classes: $(tr '\n' ' ' <<<"$classes")"
	contains "$classes" "nics: 0" || return
	[ "$(wc -l <<<"$classes")" -gt 3 ] && ! grep -q '^02' <<<"$classes"
}

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

check "no network device by QMP" no_nic_by_qmp
check "no network interface in the guest" no_nic_in_the_guest
check "a network device is refused" nic_is_refused
finish
