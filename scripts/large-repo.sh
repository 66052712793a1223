#!/usr/bin/env bash
# Makes a git repository of many files and many commits, to try things on: scripts/large-repo.sh FOLDER [FILES] [COMMITS]
set -euo pipefail
folder=${1:?the folder to make}
files=${2:-10000}
commits=${3:-10000}
mkdir -p "$folder"
git -C "$folder" init --quiet --initial-branch=main
awk -v files="$files" -v commits="$commits" '
  function body(n, commit,    text, line) {
    text = "// file " n "\n"
    for (line = 0; line < 40; line++) {
      text = text "let value_" line " = compute(" n ", " (line < 3 ? commit : 0) ");" (line == 20 && n % 50 == 0 ? " // TODO look at this" : "") "\n"
    }
    return text
  }
  function put(n, commit,    text) {
    text = body(n, commit)
    printf "M 100644 inline d%02d/f%d.%s\ndata %d\n%s\n", n % 100, n, (n % 3 == 0 ? "rs" : n % 3 == 1 ? "py" : "md"), length(text), text
  }
  BEGIN {
    for (commit = 0; commit < commits; commit++) {
      printf "commit refs/heads/main\ncommitter Author %d <a%d@example.org> %d +0000\ndata 2\nc\n", commit % 50, commit % 50, 1700000000 + commit * 600
      if (commit == 0) {
        for (n = 0; n < files; n++) put(n, 0)
        printf "M 100644 inline .env\ndata 18\nPASSWORD=not-mine\n\n"
      } else {
        put((commit * 7) % files, commit)
        put(commit % 97, commit)
      }
    }
  }' | git -C "$folder" fast-import --quiet
git -C "$folder" reset --quiet --hard main
echo "$folder: $(git -C "$folder" ls-files | wc -l) files, $(git -C "$folder" rev-list --count HEAD) commits"
