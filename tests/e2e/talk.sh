#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The turn loop against a real llama-server, without a VM: build/tests/e2e/talk does the checks.
set -u
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=tests/llama/llama.sh
. "$here/../llama/llama.sh"
trap llama_clean EXIT

# start VARIABLE OPTION...: a server whose address goes into VARIABLE
start() {
	local variable=$1
	shift
	llama_start "$here/../llama/script-odd.json" "$@" || exit
	export "$variable=$LLAMA_URL"
}

start LLAMA_DEAD_URL
llama_stop
start LLAMA_SHORT_URL --predict 40 --ctx-size 4096
start LLAMA_KEY_URL --api-key open-sesame
start LLAMA_URL
"${BUILD:-build}/tests/e2e/talk"
