#!/bin/sh
# Runs the Python binding and examples against the C library of this tree, each on its own node.
#
#   tests/python/run.sh       the last line is: N passed, N failed
#
# Uses CARGO_TARGET_DIR (else target), PROFILE (else release), CARGO (else cargo) and CARGOFLAGS.
# M3_NO_BUILD=1 tests the programs that are built already.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
profile=${PROFILE:-release}
[ "${M3_NO_BUILD-}" = 1 ] || ${CARGO:-cargo} build --quiet --profile "$profile" \
    ${CARGOFLAGS-} --manifest-path "$root/Cargo.toml" -p m3ipc-capi -p m3ipc-daemon || exit 1
work=$(mktemp -d)

# Ends a daemon that still runs in our folder, by the process id in its lock.
finish() {
    for lock in "$work"/run.*/lock; do
        [ -s "$lock" ] && kill "$(cat "$lock")" 2>/dev/null
    done
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

export M3_DAEMON="$target/$profile/m3d" M3_LIBRARY="$target/$profile/libm3ipc_c.so"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/examples/python"
passed=0
failed=0

# $1: name of the case; $2: text that the output must have; the rest: a program.
run() {
    name=$1
    wanted=$2
    shift 2
    M3_RUNTIME_DIR=$work/run.$name timeout -k 2 60 "$@" >"$work/log" 2>&1 </dev/null
    code=$?
    if [ $code -eq 0 ] && grep -q "$wanted" "$work/log"; then
        passed=$((passed + 1))
        echo "PASS $name"
    else
        failed=$((failed + 1))
        echo "FAIL $name (exit code $code, expected: $wanted)"
        sed 's/^/  | /' "$work/log"
    fi
}

run binding.py "^OK" python3 "$root/tests/python/binding.py"
run misuse.py "^OK" python3 "$root/tests/python/misuse.py"
if ! diff "$root/tests/python/misuse.txt" "$work/log"; then
    failed=$((failed + 1))
    echo "FAIL misuse.py: the texts differ from misuse.txt"
fi
run hello.py "was killed: .*-108" python3 "$root/examples/python/hello.py"
run shop.py "killed: .*-108" python3 "$root/examples/python/shop.py"
grep -q "2 + 40 = 42" "$work/log" || { failed=$((failed + 1)); echo "FAIL shop.py does not add"; }

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
