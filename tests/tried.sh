# How the tests of others tell what they tried; sourced by those that have a `folder` for what was written.

failed=0
# Says how it went, in `most` seconds at most; all of what it wrote only if it failed.
most=120
try() {
    local name=$1
    shift
    if timeout "$most" "$@" >"$folder/said" 2>&1; then
        echo "$name: ok"
    else
        echo "$name: FAILED"
        tail -n 40 "$folder/said"
        failed=1
    fi
}
holds() { grep -q -- "$1" "$2" || { echo "$2 lacks $1:"; cat "$2"; return 1; }; }
