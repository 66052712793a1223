#!/usr/bin/env bash
# The web page in a real browser.
#
#   browser.sh FOLIO TOOLS [FILE…]
#
# FOLIO is the program, TOOLS the folder that ./test installs playwright-core into; without files, all tests run.
# ONLY="a part of a name" selects tests. UI=crates/folio-server/src/ui takes the files of the page from there instead
# of from the program.

set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
FOLIO=$(realpath "$1") tools=$(realpath "$2")
shift 2
export FOLIO PACKAGES=$tools/browser
BROWSER=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || { echo "there is no Chromium"; exit 1; }
export BROWSER
[ -z "${UI:-}" ] || UI=$(realpath "$UI")
node=$tools/node/node_modules/node/bin/node
[ "$#" -gt 0 ] || set -- "$here"/*.test.mjs

HOME=$(mktemp -d) || exit 1
export HOME XDG_CONFIG_HOME=$HOME XDG_CACHE_HOME=$HOME
trap 'rm -rf "$HOME"' EXIT
"$node" --test ${ONLY:+--test-name-pattern "$ONLY"} --test-concurrency=2 --test-timeout=600000 --test-reporter="$here/reporter.mjs" "$@"
