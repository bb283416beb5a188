#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317,SC2016 # the checks are called by name; backquotes are meant as they are
# What `postern template` says of folders that are empty, damaged or out of reach, and of odd words.
# shellcheck source=tests/vm/lib.sh
. "$(dirname "$0")/../vm/lib.sh"

none='there are no templates: the first machine of an image makes one'

# A home with the image mini, as far as its name, and no templates.
home() {
	POSTERN_HOME=$(mktemp -d "$work/home.XXXXXX")
	export POSTERN_HOME
	mkdir -p "$POSTERN_HOME/images/mini" "$POSTERN_HOME/images/bench"
	echo k | tee "$POSTERN_HOME/images/mini/kernel" >"$POSTERN_HOME/images/mini/initramfs"
	echo '{"recipe": "r", "append": "", "kernel": "kernel", "initramfs": "initramfs", "memory_mib": 256}' |
		tee "$POSTERN_HOME/images/mini/image.json" >"$POSTERN_HOME/images/bench/image.json"
}

# Files like those of a template: made IMAGE [KIND...]
made() {
	local folder=$POSTERN_HOME/templates/$1 kind
	shift
	mkdir -p "$folder"
	touch "$folder/lock"
	for kind; do echo some >"$folder/12.$kind"; done
	echo '{"id": "12", "made": "2026-01-31T12:00:00Z", "key": {"postern": "0"}, "hashes": {"memory": "0"}}' \
		>"$folder/template.json"
}

# Runs postern template without the rights of root over files: said OUTPUT ERROR STATUS WORD...
# OUTPUT and ERROR are parts of what is said, '' is nothing at all.
said() {
	local output=$1 error=$2 wanted=$3 status=0 unprivileged=()
	shift 3
	[ "$(id -u)" != 0 ] || unprivileged=(setpriv --bounding-set=-all --inh-caps=-all)
	"${unprivileged[@]}" "$POSTERN" template "$@" >"$work/out" 2>"$work/err" || status=$?
	same "$status" "$wanted" || return
	if [ -n "$output" ]; then contains "$(cat "$work/out")" "$output"; else same "$(cat "$work/out")" ''; fi || return
	if [ -n "$error" ]; then contains "$(cat "$work/err")" "$error"; else same "$(cat "$work/err")" ''; fi
}

removed_once() {
	home
	made mini memory state
	said 'removed the template of image mini, 0 MiB' '' 0 rm mini &&
		said '' 'there is no template of an image mini; see postern template ls' 1 rm mini &&
		said '' 'there is no template of an image mini; see postern template ls' 1 verify mini &&
		said "$none" '' 0 ls
}

disks_are_warned_of() {
	home
	made mini memory state
	said 'removed' '' 0 rm mini && ! grep 'records of trials' "$work/out" || return
	made server qcow2
	said "can't be read any more" '' 0 rm server || return
	made mini qcow2
	rm "$POSTERN_HOME/templates/mini/template.json"
	said "can't be read any more" '' 0 rm --all
}

none_is_said() {
	home
	said "$none" '' 0 ls && said "$none" '' 0 verify && said "$none" '' 0 rm --all &&
		said '"templates":	[]' '' 0 ls --json
}

no_such_image() {
	home
	said '' 'there is no template of an image nosuch: there is no image nosuch, only mini' 1 rm nosuch &&
		said '' 'there is no template of an image ../x: ' 1 verify ../x &&
		said '' 'there is no template of an image : ' 1 verify '' || return
	same "$("$POSTERN" exec -i nosuch true 2>&1)" \
		'postern exec: there is no image nosuch, only mini: `make images` builds the rest'
}

# What can't be looked into is no reason to say that there is nothing: cause PATH CAUSE WORD...
cause() {
	local path=$1 cause=$2 words
	shift 2
	for words in ls verify 'rm --all' 'rm mini' 'verify mini'; do
		# shellcheck disable=SC2086 # they are words
		said '' "postern template: $path" 1 $words && contains "$(cat "$work/err")" ": $cause" || return
	done
}

templates_is_a_file() {
	home
	touch "$POSTERN_HOME/templates"
	cause "$POSTERN_HOME/templates" 'Not a directory'
}

unreadable() {
	home
	made mini memory
	chmod 0 "$POSTERN_HOME/templates"
	cause "$POSTERN_HOME/templates" 'Permission denied' || return
	chmod 700 "$POSTERN_HOME/templates"
	chmod 0 "$POSTERN_HOME/templates/mini"
	cause "$POSTERN_HOME/templates/mini/lock" 'Permission denied' || return
	chmod 300 "$POSTERN_HOME/templates/mini"
	said '' "$POSTERN_HOME/templates/mini: Permission denied" 1 ls &&
		said '' "$POSTERN_HOME/templates/mini: Permission denied" 1 rm mini || return
	chmod 500 "$POSTERN_HOME/templates/mini"
	said '' "removing $POSTERN_HOME/templates/mini/" 1 rm mini || return
	chmod 700 "$POSTERN_HOME/templates/mini"
	chmod 0 "$POSTERN_HOME/images"
	said 'image.json (let this user read it): Permission denied' '' 0 ls || return
	said '' "$POSTERN_HOME/images/nosuch/image.json (let this user read it): Permission denied" 1 verify nosuch || return
	chmod 700 "$POSTERN_HOME/images"
}

# One that is out of reach does not hide the others.
others_are_told() {
	home
	made mini memory
	made server memory
	chmod 0 "$POSTERN_HOME/templates/mini"
	said 'server ' "$POSTERN_HOME/templates/mini/lock: Permission denied" 1 ls &&
		said 'image server' "$POSTERN_HOME/templates/mini/lock: Permission denied" 1 rm --all
}

table() {
	home
	made mini memory
	made server memory
	"$POSTERN" template ls >"$work/out" || return
	same "$(head -n 1 "$work/out")" \
		'NAME                        ON DISK  MADE                  FITS  OLD DISKS' &&
		same "$(tail -n 1 "$work/out")" \
			'server                        0 MiB  2026-01-31T12:00:00Z  no            0  there is no image server, only mini: `make images` builds the rest' &&
		! grep ' $' "$work/out"
}

wrong_words() {
	home
	made mini memory
	said '' "there is no 'foo': want ls, verify or rm" 2 foo &&
		said '' 'want ls, verify or rm' 2 &&
		said '' 'rm takes the name of a template or --all, not both' 2 rm mini --all &&
		said '' 'rm takes the name of a template or --all, not both' 2 rm --all mini &&
		said '' 'rm needs the name of a template, or --all' 2 rm &&
		said '' '--json is for ls, not for rm' 2 rm mini --json &&
		said '' '--json is for ls, not for verify' 2 verify --json &&
		said '' '--all is for rm, not for ls' 2 ls --all &&
		said '' 'ls tells of all templates and takes no mini' 2 ls mini &&
		said '' 'server is one word too many' 2 verify mini server &&
		said '' 'unknown option --force' 2 rm mini --force && test -e "$POSTERN_HOME/templates/mini/12.memory"
}

check "what was removed is not there to be removed again" removed_once
check "disks that trials stand on are warned of, if there are any" disks_are_warned_of
check "that there are no templates is said" none_is_said
check "no template and no image are told apart" no_such_image
check "a file in place of the folder" templates_is_a_file
check "what can't be read is told with its cause" unreadable
check "one that can't be read does not hide the others" others_are_told
check "the list has a header and no blanks at the ends" table
check "wrong words are named" wrong_words
chmod -R u+rwX "$work"
finish
