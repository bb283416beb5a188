# SPDX-License-Identifier: Apache-2.0
# TAP and the probes that the checks share. A check begins with `. "$CHECKS/tap.sh"` and ends with `finish`.

tap_count=0

# check NAME COMMAND...: one result line, then what the command printed as diagnostics.
check() {
	tap_name=$1
	shift
	tap_count=$((tap_count + 1))
	if tap_output=$("$@" 2>&1); then
		echo "ok $tap_count - $tap_name"
	else
		echo "not ok $tap_count - $tap_name"
	fi
	[ -z "$tap_output" ] || printf '%s\n' "$tap_output" | head -n 20 | sed 's/^/# /'
}

# finish: the plan, last because only now the number of checks is known.
finish() {
	echo "1..$tap_count"
}

# within SECONDS COMMAND...: repeat the command until it succeeds; print what its last try printed.
within() {
	within_end=$(($(uptime_seconds) + $1))
	shift
	until within_output=$("$@" 2>&1); do
		if [ "$(uptime_seconds)" -ge "$within_end" ]; then
			printf '%s\n' "$within_output"
			return 1
		fi
		usleep 200000
	done
	printf '%s\n' "$within_output"
}

# The clock that nobody in the machine can set.
uptime_seconds() {
	cut -d . -f 1 /proc/uptime
}

# booted: systemd has started all that it wanted to start, whether or not every unit came up.
booted() {
	machine systemctl is-system-running | grep -xE 'running|degraded'
}

# http HOST PATH: the raw response of the server on port 80. No redirect is followed.
http() {
	printf 'GET %s HTTP/1.0\r\nHost: %s\r\n\r\n' "$2" "$1" | timeout 10 nc 127.0.0.1 80
}

# http_ok HOST PATH: the status is 200.
http_ok() {
	status=$(http "$1" "$2" | head -n 1 | tr -d '\r')
	echo "status: ${status:-no answer}"
	echo "$status" | grep -q '^HTTP/1\.[01] 200 '
}

# http_page HOST PATH SHA256: the body is the page with this hash.
http_page() {
	page=$(http "$1" "$2" | awk 'body; /^\r?$/ { body = 1 }')
	printf '%s\n' "$page" | sha256sum | grep -q "^$3 " && return
	echo "not the original page, it begins with:"
	printf '%s\n' "$page" | head -n 5
	return 1
}

# port_holders PORT: the programs that listen on this TCP port, one path per line.
port_holders() {
	awk -v port="$(printf ':%04X' "$1")" '$4 == "0A" && index($2, port) { print $10 }' \
		/proc/net/tcp /proc/net/tcp6 |
		while read -r inode; do
			# shellcheck disable=SC2012 # busybox find prints no link targets
			ls -l /proc/[0-9]*/fd/* 2>/dev/null |
				sed -n "s|.* \(/proc/[0-9]*\)/fd/[0-9]* -> socket:\[$inode\]$|\1/exe|p"
		done | xargs -r -n 1 readlink | sort -u
}

# port_belongs_to PORT PROGRAM: this program listens on the port, and no other does.
port_belongs_to() {
	holders=$(port_holders "$1")
	echo "listening on port $1: ${holders:-nobody}"
	[ "$holders" = "$2" ]
}

# nginx_workers_unprivileged: there are workers, and none of them is root.
nginx_workers_unprivileged() {
	uids=$(grep -l '^nginx: worker' /proc/[0-9]*/cmdline 2>/dev/null | sed 's/cmdline$/status/' |
		xargs -r grep -h '^Uid:' | cut -f 3 | sort -u)
	printf 'user id of the workers: %s\n' "${uids:-no worker runs}"
	[ -n "$uids" ] && ! echo "$uids" | grep -qx 0
}

# none_world_writable PATH...: nobody may write below these folders of the machine but owner and group.
none_world_writable() {
	for path; do
		find "$MACHINE$path" ! -type l -perm -002
	done | sed "s|^$MACHINE||" | {
		! grep .
	}
}
