#!/usr/bin/env bash
# Renews the pictures in docs/pictures, from what the program shows of its own repository.
#
#   pictures.sh FOLIO TOOLS

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
FOLIO=$(realpath "$1") tools=$(realpath "$2")
export FOLIO PACKAGES=$tools/browser
BROWSER=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || { echo "there is no Chromium"; exit 1; }
export BROWSER
[ -z "${UI:-}" ] || UI=$(realpath "$UI")
HOME=$(mktemp -d) || exit 1
export HOME XDG_CONFIG_HOME=$HOME XDG_CACHE_HOME=$HOME
trap 'rm -rf "$HOME"' EXIT
"$tools/node/node_modules/node/bin/node" "$here/pictures.mjs" "$here/../.." "$here/../../docs/pictures"
