#!/bin/sh
# Runs the Python examples against the C library of this tree, on a node of their own.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$top/target}
cargo build --quiet --release --manifest-path "$top/Cargo.toml" || exit 1
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export M3_RUNTIME_DIR="$home/m3" M3_DAEMON="$target/release/m3d"
export M3_LIBRARY="$target/release/libm3ipc_c.so" PYTHONDONTWRITEBYTECODE=1
passed=0
failed=0
got=$(timeout -k 2 60 python3 "$top/examples/python/shop.py" 2>&1 </dev/null)
case "$got" in
*"2 + 40 = 42"*"killed:"*) passed=1 ;;
*) failed=1; printf '%s\n' "not ok - shop.py" "$got" ;;
esac
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
