#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317,SC2016 # the checks are called by name; guests expand their own variables
# The server image comes up as a running system, on a disk of its own each time.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/lib.sh"
requires_image server

running_system() {
	same "$(pexec -i server -- systemctl is-system-running)" running
}

disk_is_new_each_time() {
	pexec -i server -- sh -c 'echo left >/root/mark && sync' || return
	same "$(pexec -i server -- sh -c 'cat /root/mark 2>/dev/null; echo new')" new
}

check "systemd says running" running_system
check "what one machine writes the next has not" disk_is_new_each_time
finish
