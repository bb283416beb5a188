#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317 # the checks are called by name
# What `make install` puts elsewhere works there, without the source tree.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/../vm/lib.sh"
top=$(readlink -f "$(dirname "$0")/../..")

# Not a word of the make that runs this test, and no second build.
installs() {
	env -u MAKEFLAGS -u MAKELEVEL make -C "$top" BUILD="$(dirname "$POSTERN")" "$@" >"$work/log" 2>&1 || {
		cat "$work/log"
		return 1
	}
}

installed() {
	installs install DESTDIR="$work/a b" PREFIX=/opt/postern || return
	same "$(cd "$work/a b" && find . -type f -printf '%m %p\n' | sort)" \
		$'644 ./opt/postern/share/man/man1/postern.1\n755 ./opt/postern/bin/postern'
}

runs_there() {
	local bin="$work/a b/opt/postern/bin"
	cd / && same "$(PATH=$bin:$PATH postern --version)" "$("$POSTERN" --version)" || return
	contains "$(POSTERN_HOME=$work/home PATH=$bin:$PATH postern doctor)" 'image mini'
}

manual_goes_along() {
	cmp "$work/a b/opt/postern/share/man/man1/postern.1" "$top/docs/postern.1"
}

by_default() {
	installs install DESTDIR="$work/default" && test -x "$work/default/usr/local/bin/postern"
}

check "the program and its manual go where they are told to" installed
check "the program runs there" runs_there
check "the manual goes along" manual_goes_along
check "without a word they go below /usr/local" by_default
finish
