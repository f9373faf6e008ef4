#!/bin/sh
# Builds and installs libm3ipc and its daemon into a folder of its own, and runs all that is
# written in C against them: the examples, the conformance program with the shared
# and with the static library, the sources with old include paths, the man pages.
#
#   tests/c/run.sh            the last line is: N passed, N failed
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

work=$(mktemp -d "${TMPDIR:-/tmp}/m3ipc-capi.XXXXXX") || exit 3

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
    M3_RUNTIME_DIR=$work/run.$runs M3_DAEMON=$work/bin/m3d LD_LIBRARY_PATH=$work/lib \
        timeout -k 1 "$limit" "$@" >"$work/log" 2>&1 </dev/null
    code=$?
    say $code "$name" "$work/log"
    tail -n 1 "$work/log" | grep '^[0-9]* passed, [0-9]* failed$' | sed "s/^/  $name: /"
}

${CARGO:-cargo} build --manifest-path "$root/Cargo.toml" --release \
    ${CARGOFLAGS-} || {
    echo "FAIL build"
    echo "0 passed, 1 failed"
    exit 1
}

# As `make install` does it; the shared library bears the symbol versions of the map.
mkdir "$work/static" "$work/plain"
(cd "$root" && ${CARGO:-cargo} xtask install --no-build --destdir "$work/root" --prefix /usr) >"$work/log" 2>&1
say $? "cargo xtask install" "$work/log"
ln -s root/usr/lib "$work/lib"
ln -s root/usr/bin "$work/bin"
ln -s ../lib/libm3ipc.a "$work/static/libm3ipc.a"
# What cargo builds by itself has no versions.
cp "$target/release/libm3ipc_c.so" "$work/plain/libm3ipc.so.0"
ln -s libm3ipc.so.0 "$work/plain/libm3ipc.so"
include=$root/crates/capi/include
compat=$include/m3ipc/compat
# Whoever links the static library needs what it needs.
needs="-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc"

step "check_pages.sh" sh "$here/check_pages.sh" "$root"
step "check_symbols.sh --versions" sh "$here/check_symbols.sh" --versions "$work/lib/libm3ipc.so" "$root"
step "check_symbols.sh" sh "$here/check_symbols.sh" "$work/plain/libm3ipc.so" "$root"

for source in "$root"/examples/c/*.c; do
    name=$(basename "$source" .c)
    step "compile $name" $cc -std=c99 -D_POSIX_C_SOURCE=200809L $warnings -I"$include" -o "$work/$name" "$source" \
        -L"$work/lib" -lm3ipc
done
step "compile conformance" $cc -std=c11 $warnings -I"$include" -o "$work/conformance" "$here/conformance.c" \
    -L"$work/lib" -lm3ipc -lpthread
step "compile conformance, static" $cc -std=c11 $warnings -I"$include" -o "$work/conformance.static" \
    "$here/conformance.c" "$work/static/libm3ipc.a" $needs
for build in kernel com; do
    define=-DKERNEL
    [ $build = kernel ] || define=-DCOM
    step "compile sockets, $build" $cc -std=c11 $warnings $define -I"$include" -o "$work/sockets.$build" "$here/sockets.c" \
        -L"$work/lib" -lm3ipc -lpthread
done
step "compile blocks" $cc -std=c11 $warnings -I"$include" -o "$work/blocks" "$here/blocks.c" -L"$work/lib" -lm3ipc
old="-I$compat -I$compat/src -I$compat/src/sub -I$compat/src/sub/dir"
step "compile old_paths" $cc $warnings $old -c -o "$work/old_paths.o" "$here/old_paths.c"
step "compile old_paths as C++" $cc -x c++ $warnings $old -c -o "$work/old_paths.o" "$here/old_paths.c"

step "compile paper_style without symbol versions" $cc -std=c99 -D_POSIX_C_SOURCE=200809L $warnings -I"$include" \
    -o "$work/paper_style.plain" "$root/examples/c/paper_style.c" -L"$work/plain" -lm3ipc
readelf --version-info "$work/paper_style" 2>/dev/null | grep -q M3IPC_0.1
say $? "a program says which version of a function it means"

for name in paper_style dvs_style copy_between; do
    run "$name" 60 "$work/$name"
done
run "pipeline" 60 "$work/pipeline" 16
grep -q '^bytes copied: 0;' "$work/log"
say $? "pipeline copies nothing" "$work/log"
run "conformance" 300 "$work/conformance"
run "conformance, static" 300 "$work/conformance.static"
# The same program over the kernel's sockets and over com-sockets: the same results, call by call.
run "sockets, kernel" 120 "$work/sockets.kernel"
cp "$work/log" "$work/sockets.expected"
run "sockets, com" 120 "$work/sockets.com"
diff "$work/sockets.expected" "$work/log" >"$work/differences"
say $? "com-sockets answer as the kernel's ($(grep -c : "$work/log") results)" "$work/differences"
run "blocks through com-sockets" 60 "$work/blocks"
# A program that was linked without versions runs with a library that has them.
run "paper_style, linked without symbol versions" 60 "$work/paper_style.plain"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
