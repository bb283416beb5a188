#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: deps.sh [check|bench]
#
# Installs the packages that postern needs to build, to make its images and to run its tests; with
# `check` also those of the linters, with `bench` those of what it is compared with. Says first what it
# will install. Does nothing when all is there.
set -eu

build='gcc make libc6-dev libcurl4-openssl-dev libcjson-dev libyaml-dev musl-tools'
run='qemu-system-x86 qemu-utils'
images='mmdebstrap debian-archive-keyring e2fsprogs uidmap python3'
tests='curl jq procps'
bench='openssh-client libvirt-daemon libvirt-clients'
lint='clang clang-format clang-tidy cppcheck shellcheck libclang-rt-dev'

wanted="$build $run $images $tests"
case ${1-} in
check) wanted="$wanted $lint" ;;
bench) wanted="$wanted $bench" ;;
esac

if ! command -v apt-get >/dev/null; then
	cat <<TXT
postern installs its packages by itself on Debian and Ubuntu only. Elsewhere install these first:

  dnf    install gcc make libcurl-devel cjson-devel libyaml-devel musl-gcc qemu-system-x86-core qemu-img \\
                 mmdebstrap debian-keyring e2fsprogs shadow-utils python3 curl jq procps-ng
  pacman -S      gcc make curl cjson libyaml musl qemu-system-x86 qemu-img \\
                 mmdebstrap debian-archive-keyring e2fsprogs shadow python jq procps-ng

then run make again with DEPS=no.
TXT
	exit 1
fi

missing=
for package in $wanted; do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
		missing="$missing $package"
done
[ -n "$missing" ] || exit 0

sudo=
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || {
		echo "deps: run 'apt-get install$missing' as root, then make again" >&2
		exit 1
	}
	sudo=sudo
fi
echo "deps: installing$missing" >&2
# shellcheck disable=SC2086 # the lists are words
{
	$sudo apt-get -q update >/dev/null &&
		$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
			install $missing >/dev/null
} || {
	echo "deps: apt-get failed; look at its message above, mend the sources and run make again" >&2
	exit 1
}
