#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317 # the checks are called by name
# A kernel with a driver for vmgenid, that of Debian 13, learns in each clone that it is one.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/../vm/lib.sh"

top=$(dirname "$0")/../..
images=$(readlink -f "${BUILD:-$top/build}")/generation
"$top/image-builder/build-image" generation --agent "${POSTERN_AGENT:-$top/build/postern-agent}" \
	--images "$images" >&2 || exit
export POSTERN_HOME=$work/home
mkdir "$POSTERN_HOME"
ln -s "$images" "$POSTERN_HOME/images"
trap '"$POSTERN" down --all >/dev/null 2>&1; rm -rf "$work"' EXIT

# What the kernel says when the number of its generation has changed.
learned='crng reseeded due to virtual machine fork'

# counts WANTED EXEC-ARGUMENT...: it has said so that often
counts() {
	local wanted=$1
	shift
	p exec "$@" -- dmesg >"$work/said" && [ -s "$work/said" ] && same "$(grep -c "$learned" "$work/said")" "$wanted"
}

# A machine with another size of memory has no template.
boot_is_no_clone() {
	p up cold -i generation --memory 200 && counts 0 -n cold && p down cold
}

clones_learn_it() {
	for _ in 1 2 3; do
		counts 1 -i generation || return
	done
}

reset_is_learned() {
	p up box -i generation || return
	for _ in 1 2 3; do
		counts 1 -n box && p reset box || return
	done
	p down box
}

check "a booted machine is no clone" boot_is_no_clone
check "each clone learns that it is one" clones_learn_it
check "so it does after each reset" reset_is_learned
finish
