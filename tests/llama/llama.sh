# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A llama-server with a scripted model; to be sourced.
#
#	llama_start SCRIPT.json [OPTION-OF-LLAMA-SERVER...]
#
# sets LLAMA_URL and LLAMA_PID once the server answers. Returns 77 when no llama-server can be had
# here, 1 when it does not start; one line on standard error says why. Several may run at once.
#
#	llama_stop		the one started last
#	llama_clean		all of them, and their files

llama_here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
llama_dest=${LLAMA_DEST:-$llama_here/../../build/llama}
llama_patience=60	# seconds until it must answer
llama_server=
llama_work=
llama_pids=()

llama_free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Waits until the server at LLAMA_URL has loaded its model, or ended.
llama_wait() {
	local until=$((SECONDS + llama_patience))

	until curl -sf --noproxy '*' --max-time 5 -o /dev/null "$LLAMA_URL/health"; do
		kill -0 "$LLAMA_PID" 2>/dev/null || return 1
		[ $SECONDS -lt $until ] || return 1
		# The server tells nobody that it is ready: a short pause between two looks.
		read -rt 0.05 <>"$llama_work/pause" || true
	done
}

llama_start() {
	local script=$1 log model
	shift
	[ -n "$llama_server" ] || llama_server=$("$llama_here/get-llama-server" "$llama_dest") || return
	if [ -z "$llama_work" ]; then
		llama_work=$(mktemp -d) || return 1
		mkfifo "$llama_work/pause" || return 1
	fi
	# A server maps its model: each has a file of its own.
	log=$llama_work/${#llama_pids[@]}.log
	model=$llama_work/${#llama_pids[@]}.gguf
	"$llama_here/make-scripted-model" "$model" "$script" || return 1

	# Another program may take the port in between: then with another one.
	for _ in 1 2 3; do
		LLAMA_URL=http://127.0.0.1:$(llama_free_port) || return 1
		"$llama_server" --host 127.0.0.1 --port "${LLAMA_URL##*:}" --model "$model" \
			--jinja --parallel 1 --ctx-size 65536 "$@" >"$log" 2>&1 </dev/null &
		LLAMA_PID=$!
		llama_pids+=("$LLAMA_PID")
		llama_wait && return
		llama_stop
	done
	echo "llama-server does not start: $(tail -n 1 "$log")" >&2
	return 1
}

llama_stop() {
	local last=$((${#llama_pids[@]} - 1))

	[ $last -ge 0 ] || return 0
	kill "${llama_pids[last]}" 2>/dev/null
	wait "${llama_pids[last]}" 2>/dev/null
	unset 'llama_pids[last]'
}

llama_clean() {
	while [ ${#llama_pids[@]} -gt 0 ]; do
		llama_stop
	done
	[ -z "$llama_work" ] || rm -rf "$llama_work"
	llama_work=
}
