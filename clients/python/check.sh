#!/usr/bin/env bash
# Installs the client as a user would, checks its types, and tries it and its examples on a server.
#
#   check.sh FOLIO PYTHON
#
# FOLIO is the program; PYTHON one that has what pyproject.toml lists for tests.

set -euo pipefail

folio=$(realpath "$1") python=$(realpath -s "$2")
cd "$(dirname "${BASH_SOURCE[0]}")"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# From a copy: nothing is written beside the sources.
cp -r pyproject.toml README.md src "$scratch/"
"$python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$scratch"
"$python" -m mypy --cache-dir "$scratch/types" 2>&1
FOLIO_PROGRAM=$folio PYTHONDONTWRITEBYTECODE=1 timeout 300 "$python" -m pytest
