#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: run.sh
#
# Plays all scripts against the agent of this tree, $POSTERN_AGENT.
set -eu

here=$(dirname "$(readlink -f "$0")")
exec "${BUILD:-build}/tests/conformance/conform" "$here"/[0-9]-*.vec -- "$POSTERN_AGENT" --fd 3
