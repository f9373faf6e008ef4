#!/bin/sh
# The matrix: each case of matrix.c over TCP and over Unix sockets, with the kernel's sockets and
# under `m3 sock run` in three settings, compared line by line. A case counts only where bytes went through a ring.
# At the end, where no case is named, what `m3 sock stat` says of a connection (sight.sh).
#
#   tests/sockets/run.sh [CASE...]        the last line is: N passed, N failed
#
# Needs `cargo build --release` (or what CARGO_TARGET_DIR and PROFILE name), and CC (else cc).
# Leaves nothing behind, neither files nor processes.
set -u
LC_ALL=C
export LC_ALL

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
built=${CARGO_TARGET_DIR:-$root/target}/${PROFILE:-release}
limit=${LIMIT:-100}
passed=0
failed=0

work=$(mktemp -d "${TMPDIR:-/tmp}/m3-matrix.XXXXXX") || exit 3
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
M3_RUNTIME_DIR=$work/run
TMPDIR=$work
export M3_RUNTIME_DIR TMPDIR
mkdir -m 700 "$work/run"

for file in m3 libm3sock.so; do
    if [ ! -f "$built/$file" ]; then
        echo "error: there is no $built/$file; run cargo build --release first" >&2
        exit 3
    fi
done
${CC:-cc} -O1 -Wall -Wextra -Werror -Wno-unused-result -o "$work/matrix" \
    "$here/matrix.c" "$here/streams.c" "$here/bulk.c" "$here/ready.c" "$here/life.c" \
    "$here/sets.c" "$here/held.c" "$here/marks.c" "$here/hands.c" "$here/kin.c" "$here/crowd.c" \
    "$here/slots.c" "$here/sharp.c" "$here/steps.c" "$here/foes.c" -lpthread || exit 3
# Needs no C library, so it can be made wherever there is a compiler for this machine.
if ${CC:-cc} -O1 -Wall -static -nostdlib -ffreestanding -fno-stack-protector -fno-pie -no-pie -o "$work/static" "$here/static.c"; then
    M3_MATRIX_STATIC=$work/static
    export M3_MATRIX_STATIC
fi
${CC:-cc} -O1 -Wall -Wextra -Werror -Wno-unused-result -o "$work/sight" "$here/sight.c" || exit 3

common='upgrade-after = 0'
echo "$common" >"$work/default"
printf '%s\nring-bytes = 64\n' "$common" >"$work/tiny"
printf '%s\nring-bytes = 256\n[test]\nalways-token = true\n' "$common" >"$work/token"

# A number of a file of counters, by its place.
counter() {
    od -An -t u8 -j $((520 + 8 * $2)) -N 8 "$1" | tr -d ' '
}

fail() {
    failed=$((failed + 1))
    echo "FAIL $1"
    [ -z "${2-}" ] || sed 's/^/  | /' "$2" | head -40
}

# What connections leave behind is freed by later ones: 600 that come and go take no more room than a few.
# (TCP sockets that wait for their last packets keep their pairs for a minute, so this is said of Unix ones alone.)
leaves_nothing() {
    rm -f "$M3_RUNTIME_DIR"/*
    for turn in 1 2 3 4 5 6 7 8 9 10; do
        timeout -k 2 "$limit" "$built/m3" sock run --policy "$work/default" -- "$work/matrix" unix crowd_churn \
            >"$work/shared" 2>"$work/error" </dev/null || fail "coming and going, turn $turn" "$work/error"
    done
    left_kb=$(du -k "$M3_RUNTIME_DIR" | cut -f 1)
    if [ "$left_kb" -gt 16384 ] || [ "$(ls "$M3_RUNTIME_DIR" | grep -c ^sock-)" -ne 1 ]; then
        ls -ls "$M3_RUNTIME_DIR" >"$work/error"
        fail "what connections leave behind: $left_kb KiB" "$work/error"
    else
        passed=$((passed + 1))
    fi
}

one() {
    kind=$1
    case=$2
    ring=$3
    rm -f "$M3_RUNTIME_DIR"/*
    timeout -k 2 "$limit" "$work/matrix" "$kind" "$case" >"$work/native" 2>"$work/error" </dev/null
    code=$?
    if [ $code -eq 77 ]; then
        echo "left out: $kind $case: $(cat "$work/error")"
        return
    fi
    if [ $code -ne 0 ]; then
        fail "$kind $case natively" "$work/error"
        return
    fi
    for setting in default tiny token; do
        timeout -k 2 "$limit" "$built/m3" sock run --policy "$work/$setting" --counters "$work/counters" -- \
            "$work/matrix" "$kind" "$case" >"$work/shared" 2>"$work/error" </dev/null
        code=$?
        diff "$work/native" "$work/shared" >"$work/difference"
        if [ $code -ne 0 ]; then
            echo "ended with $code" >>"$work/error"
            cat "$work/difference" >>"$work/error"
            fail "$kind $case $setting" "$work/error"
        elif [ -s "$work/difference" ]; then
            fail "$kind $case $setting: < native, > shared" "$work/difference"
        elif [ "$ring" = yes ] && [ "$(counter "$work/counters" 0)" -eq 0 ]; then
            fail "$kind $case $setting: no byte went through a ring"
        else
            passed=$((passed + 1))
        fi
    done
}

. "$here/sight.sh"
for case in ${*:-$("$work/matrix" --list)}; do
    ring=yes
    case $case in
    -*) ring=no case=${case#-} ;;
    esac
    one tcp "$case" $ring
    # Unix sockets have no urgent bytes of this kind.
    [ "$case" = urgent ] || one unix "$case" $ring
done
[ $# -gt 0 ] || for kind in tcp unix; do sight $kind; done
[ $# -gt 0 ] || leaves_nothing
rm -f "$M3_RUNTIME_DIR"/*
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
