#!/bin/sh
# Checks a shared library: it exports exactly the symbols of libm3ipc.map, its soname is
# libm3ipc.so.0, and with --versions its symbols have the versions of the map.
#
#   check_symbols.sh [--versions] LIBRARY [root of the tree]
set -eu
LC_ALL=C
export LC_ALL

versions=no
[ "$1" != --versions ] || { versions=yes; shift; }
library=$1
root=${2:-$(dirname "$0")/../..}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# Each symbol of the map as name@@version. The version is the block in which the name stands.
awk '
    /^M3IPC_[0-9.]* *\{/ { block = $1 }
    /^ +[a-z][A-Za-z0-9_]*;/ { sub(";", ""); print $1 "@@" block }
' "$root/crates/capi/libm3ipc.map" | sort >"$work/map"
nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort >"$work/exported"
if [ $versions = no ]; then
    for list in map exported; do
        sed -i 's/@.*//' "$work/$list"
        sort -o "$work/$list" "$work/$list"
    done
fi

[ -s "$work/map" ] || { echo "FAIL the map has no symbol"; exit 1; }
diff "$work/map" "$work/exported" >"$work/differences" || {
    echo "FAIL $library: < is only in the map, > is only exported"
    grep '^[<>]' "$work/differences"
    failed=1
}
readelf -d "$library" | grep -q 'SONAME.*\[libm3ipc\.so\.0\]' || {
    echo "FAIL $library: the soname is not libm3ipc.so.0"
    failed=1
}
[ $failed -eq 0 ] || exit 1
echo "ok: $(wc -l <"$work/map" | tr -d ' ') symbols"
