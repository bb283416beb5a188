#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317 # the checks are called by name
# A kernel with a driver for vmgenid, that of Debian 13, learns in each clone that it is one.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/../vm/lib.sh"

top=$(dirname "$0")/../..
images=$top/${BUILD:-build}/generation
"$top/image-builder/build-image" generation --agent "${POSTERN_AGENT:-$top/build/postern-agent}" \
	--images "$images" >&2 || exit
POSTERN_HOME=$work/home
mkdir "$POSTERN_HOME"
ln -s "$(readlink -f "$images")" "$POSTERN_HOME/images"
export POSTERN_HOME
trap '"$POSTERN" down --all >/dev/null 2>&1; rm -rf "$work"' EXIT

# What the kernel says when the number of its generation has changed.
learned='crng reseeded due to virtual machine fork'

# A machine with another size of memory has no template.
boot_is_no_clone() {
	"$POSTERN" up cold -i generation --memory 200 || return
	same "$("$POSTERN" exec -n cold -- dmesg | grep -c "$learned")" 0 && "$POSTERN" down cold
}

clones_learn_it() {
	for _ in 1 2 3; do
		same "$(pexec -i generation -- dmesg | grep -c "$learned")" 1 || return
	done
}

reset_is_learned() {
	"$POSTERN" up box -i generation || return
	for _ in 1 2 3; do
		same "$("$POSTERN" exec -n box -- dmesg | grep -c "$learned")" 1 && "$POSTERN" reset box || return
	done
	"$POSTERN" down box
}

check "a booted machine is no clone" boot_is_no_clone
check "each clone learns that it is one" clones_learn_it
check "so it does after each reset" reset_is_learned
finish
