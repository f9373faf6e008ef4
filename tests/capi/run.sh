#!/bin/sh
# Builds libm3ipc and its daemon, lays them out as installed, and runs all that is
# written in C against them: the examples, the conformance program with the shared
# and with the static library, the sources with old include paths, the man pages.
#
#   tests/capi/run.sh            the last line is: N passed, N failed
#
# Uses CARGO_TARGET_DIR (else target), CARGO (else cargo), CC (else cc), and CARGOFLAGS.
# Leaves nothing behind, neither files nor processes.
set -u
LC_ALL=C
export LC_ALL

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
cc=${CC:-cc}
warnings="-Wall -Wextra -Werror"
passed=0
failed=0

work=$(mktemp -d "${TMPDIR:-/tmp}/m3-capi.XXXXXX") || exit 3

# A daemon that still runs in one of our folders is ended by the number that its lock holds.
finish() {
    for lock in "$work"/run.*/lock; do
        [ -s "$lock" ] || continue
        pid=$(cat "$lock")
        case $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) in
        *"$work"*) kill "$pid" 2>/dev/null ;;
        esac
    done
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

say() {
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
        echo "PASS $2"
    else
        failed=$((failed + 1))
        echo "FAIL $2"
        [ -z "${3-}" ] || sed 's/^/  | /' "$3"
    fi
}

# $1: what it is called; the rest: a command that is quick and starts nothing.
step() {
    name=$1
    shift
    "$@" >"$work/log" 2>&1
    say $? "$name" "$work/log"
}

# $1: what it is called; $2: seconds; the rest: a program, run in a node of its own.
run() {
    name=$1
    limit=$2
    shift 2
    runs=$((${runs:-0} + 1))
    M3_RUNTIME_DIR=$work/run.$runs M3_DAEMON=$work/bin/m3d LD_LIBRARY_PATH=${library:-$work/lib} \
        timeout -k 1 "$limit" "$@" >"$work/log" 2>&1 </dev/null
    code=$?
    say $code "$name" "$work/log"
    tail -n 1 "$work/log" | grep '^[0-9]* passed, [0-9]* failed$' | sed "s/^/  $name: /"
}

${CARGO:-cargo} build --manifest-path "$root/Cargo.toml" --release -p m3-capi -p m3d ${CARGOFLAGS-} || {
    echo "FAIL build"
    echo "0 passed, 1 failed"
    exit 1
}

# As installed: the names that the loader and the linker look for.
mkdir "$work/lib" "$work/static" "$work/bin"
cp "$target/release/m3d" "$work/bin/m3d"
cp "$target/release/libm3ipc_c.so" "$work/lib/libm3ipc.so.0.1.0"
ln -s libm3ipc.so.0.1.0 "$work/lib/libm3ipc.so.0"
ln -s libm3ipc.so.0 "$work/lib/libm3ipc.so"
cp "$target/release/libm3ipc_c.a" "$work/static/libm3ipc.a"
include=$root/crates/m3-capi/include
compat=$include/m3ipc/compat
# Whoever links the static library needs what it needs.
needs="-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc"

step "check_pages.sh" sh "$here/check_pages.sh" "$root"
step "check_symbols.sh" sh "$here/check_symbols.sh" "$work/lib/libm3ipc.so" "$root"

for source in "$root"/examples/c/*.c; do
    name=$(basename "$source" .c)
    step "compile $name" $cc -std=c99 -D_POSIX_C_SOURCE=200809L $warnings -I"$include" -o "$work/$name" "$source" \
        -L"$work/lib" -lm3ipc
done
step "compile conformance" $cc -std=c11 $warnings -I"$include" -o "$work/conformance" "$here/conformance.c" \
    -L"$work/lib" -lm3ipc -lpthread
step "compile conformance, static" $cc -std=c11 $warnings -I"$include" -o "$work/conformance.static" \
    "$here/conformance.c" "$work/static/libm3ipc.a" $needs
old="-I$compat -I$compat/src -I$compat/src/sub -I$compat/src/sub/dir"
step "compile old_paths" $cc $warnings $old -c -o "$work/old_paths.o" "$here/old_paths.c"
step "compile old_paths as C++" $cc -x c++ $warnings $old -c -o "$work/old_paths.o" "$here/old_paths.c"

# With the symbol versions of the map, which cargo's link cannot give: it has a script of its own.
mkdir "$work/versioned"
step "link with symbol versions" $cc -shared -o "$work/versioned/libm3ipc.so.0" -Wl,-soname,libm3ipc.so.0 \
    -Wl,--version-script="$root/crates/m3-capi/libm3ipc.map" -Wl,--gc-sections \
    -Wl,--whole-archive "$work/static/libm3ipc.a" -Wl,--no-whole-archive $needs
step "check_symbols.sh --versions" sh "$here/check_symbols.sh" --versions "$work/versioned/libm3ipc.so.0" "$root"

for name in paper_style dvs_style copy_between; do
    run "$name" 60 "$work/$name"
done
run "conformance" 300 "$work/conformance"
run "conformance, static" 300 "$work/conformance.static"
# A program that was linked without versions runs with a library that has them.
library=$work/versioned
run "paper_style, with symbol versions" 60 "$work/paper_style"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
