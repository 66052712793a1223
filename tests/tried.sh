# Helpers for the tests with third-party programs; sourced by scripts that have a `folder` for output.

failed=0
# Runs a command for at most `most` seconds and reports the result; prints its output only if it failed.
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
