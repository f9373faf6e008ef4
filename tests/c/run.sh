#!/bin/sh
# Builds libm3ipc and its daemon, installs them into a folder of its own, and runs every C program
# against them: the examples, the conformance program with the shared and with the static library,
# a program with old include paths, C++ with and without short names, and the page checks.
#
#   tests/c/run.sh            the last line is: N passed, N failed
#
# Uses CARGO_TARGET_DIR (else target), PROFILE (else release), CARGO (else cargo), CC (else cc) and
# CXX (else c++). M3_NO_BUILD=1 tests the programs that are built already. The script leaves
# neither files nor processes behind.
set -u
LC_ALL=C
export LC_ALL

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
profile=${PROFILE:-release}
cargo=${CARGO:-cargo}
xtask=${XTASK:-$cargo xtask}
cc=${CC:-cc}
cxx=${CXX:-c++}
warnings="-Wall -Wextra -Werror"
passed=0
failed=0
proxies=

work=$(mktemp -d "${TMPDIR:-/tmp}/m3ipc-capi.XXXXXX") || exit 3

# Ends the proxies, and each daemon that still runs in our folder, by the process id in its lock.
finish() {
    [ -z "$proxies" ] || kill $proxies 2>/dev/null
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

# $1: exit code; $2: name of the case; $3: its output.
report() {
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
        echo "PASS $2"
    else
        failed=$((failed + 1))
        echo "FAIL $2"
        [ -z "${3-}" ] || sed 's/^/  | /' "$3"
    fi
}

# $1: name of the case; the rest: a command that is quick and starts no daemon.
step() {
    name=$1
    shift
    "$@" >"$work/log" 2>&1
    report $? "$name" "$work/log"
}

# $1: name of the case; $2: seconds; the rest: a program, run with a node of its own.
run() {
    name=$1
    limit=$2
    shift 2
    runs=$((${runs:-0} + 1))
    M3_RUNTIME_DIR=$work/run.$runs M3_DAEMON=$work/bin/m3d LD_LIBRARY_PATH=$work/lib \
        timeout -k 1 "$limit" "$@" >"$work/log" 2>&1 </dev/null
    code=$?
    report $code "$name" "$work/log"
    tail -n 1 "$work/log" | grep '^[0-9]* passed, [0-9]* failed$' | sed "s/^/  $name: /"
}

# `cargo xtask install` builds, and links the shared library with the symbol versions of the map.
mkdir "$work/static" "$work/plain"
no_build=
[ "${M3_NO_BUILD-}" != 1 ] || no_build=--no-build
(cd "$root" && $xtask install $no_build --profile "$profile" --destdir "$work/root" \
    --prefix /usr) >"$work/log" 2>&1 || {
    sed 's/^/  | /' "$work/log"
    echo "FAIL cargo xtask install"
    echo "0 passed, 1 failed"
    exit 1
}
report 0 "cargo xtask install"
ln -s root/usr/lib "$work/lib"
ln -s root/usr/bin "$work/bin"
ln -s ../lib/libm3ipc.a "$work/static/libm3ipc.a"
# The library that cargo builds has no symbol versions.
cp "$target/$profile/libm3ipc_c.so" "$work/plain/libm3ipc.so.0"
ln -s libm3ipc.so.0 "$work/plain/libm3ipc.so"
include=$work/include
(cd "$root" && $xtask forwards "$include") >"$work/log" 2>&1
report $? "cargo xtask forwards" "$work/log"
compat=$include/m3ipc/compat
# A program that links the static library needs the libraries that it uses.
needs="-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc"
c99="$cc -std=c99 -D_POSIX_C_SOURCE=200809L $warnings -I$include"
c11="$cc -std=c11 $warnings -I$include"

for header in "$include"/m3ipc/*.h; do
    step "compile $(basename "$header") by itself" $c99 -fsyntax-only -x c "$header"
done
step "check_pages.sh" sh "$here/check_pages.sh" "$root"
step "check_names.sh" sh "$here/check_names.sh" "$root"
step "check_symbols.sh --versions" sh "$here/check_symbols.sh" --versions \
    "$work/lib/libm3ipc.so" "$root"
step "check_symbols.sh" sh "$here/check_symbols.sh" "$work/plain/libm3ipc.so" "$root"

for source in "$root"/examples/c/*.c; do
    name=$(basename "$source" .c)
    step "compile $name" $c99 -o "$work/$name" "$source" -L"$work/lib" -lm3ipc
done
step "compile conformance" $c11 -o "$work/conformance" "$here/conformance.c" \
    -L"$work/lib" -lm3ipc -lpthread
step "compile conformance, static" $c11 -o "$work/conformance.static" "$here/conformance.c" \
    "$work/static/libm3ipc.a" $needs
step "compile misuse" $c11 -o "$work/misuse" "$here/misuse.c" -L"$work/lib" -lm3ipc
for build in kernel com; do
    define=-DKERNEL
    [ $build = kernel ] || define=-DCOM
    step "compile sockets, $build" $c11 $define -o "$work/sockets.$build" "$here/sockets.c" \
        -L"$work/lib" -lm3ipc -lpthread
done
step "compile forks" $c11 -D_DEFAULT_SOURCE -o "$work/forks" "$here/forks.c" -L"$work/lib" -lm3ipc \
    -lpthread
step "compile cancelled" $c11 -D_DEFAULT_SOURCE -o "$work/cancelled" "$here/cancelled.c" \
    -L"$work/lib" -lm3ipc -lpthread
step "compile room" $c11 -D_DEFAULT_SOURCE -o "$work/room" "$here/room.c" -L"$work/lib" -lm3ipc
step "compile migrate" $c11 -o "$work/migrate" "$here/migrate.c" -L"$work/lib" -lm3ipc
step "compile blocks" $c11 -o "$work/blocks" "$here/blocks.c" -L"$work/lib" -lm3ipc
step "compile reply_receive" $c11 -o "$work/reply_receive" "$here/reply_receive.c" \
    -L"$work/lib" -lm3ipc
old="-I$compat -I$compat/src -I$compat/src/sub -I$compat/src/sub/dir"
step "compile old_paths" $cc $warnings $old -c -o "$work/old_paths.o" "$here/old_paths.c"
step "compile old_paths as C++" $cc -x c++ $warnings $old -c -o "$work/old_paths.o" \
    "$here/old_paths.c"
for names in short prefixed; do
    step "compile C++ with $names names" $cxx -std=c++17 $warnings -I"$include" \
        -o "$work/names_$names" "$here/names_$names.cpp" -L"$work/lib" -lm3ipc
done

step "compile paper_style without symbol versions" $c99 -o "$work/paper_style.plain" \
    "$root/examples/c/paper_style.c" -L"$work/plain" -lm3ipc
readelf --version-info "$work/paper_style" 2>/dev/null | grep -q M3IPC_0.1
report $? "a program names the version of each function"

for name in hello paper_style dvs_style copy_between; do
    run "$name" 60 "$work/$name"
done
run "pipeline" 60 "$work/pipeline" 16
grep -q '^bytes copied: 0;' "$work/log"
report $? "pipeline copies nothing" "$work/log"
run "conformance" 300 "$work/conformance"
run "conformance, static" 300 "$work/conformance.static"
run "reply_receive with long parts" 60 "$work/reply_receive"
run "misuse" 60 "$work/misuse"
diff "$here/misuse.txt" "$work/log" >"$work/differences"
report $? "wrong uses give the codes and texts of misuse.txt" "$work/differences"
# The same program over kernel sockets and over com-sockets must print the same results.
run "sockets, kernel" 120 "$work/sockets.kernel"
cp "$work/log" "$work/sockets.expected"
run "sockets, com" 120 "$work/sockets.com"
diff "$work/sockets.expected" "$work/log" >"$work/differences"
report $? "com-sockets return what kernel sockets return ($(grep -c : "$work/log") results)" \
    "$work/differences"
run "blocks through com-sockets" 60 "$work/blocks"
run "room beyond what arrives" 120 "$work/room"
run "a cancelled thread ends behind its calls" 120 "$work/cancelled"
run "forks beside threads inside the library" 600 "$work/forks"
# Two nodes of one VM, and one without a proxy. Slot 10 of beta has its backup on alpha.
start_nodes() {
    # Below the ports that the kernel gives to connections of other programs.
    port=$((10000 + $$ % 20000))
    (cd "$work" && "$work/bin/m3-proxy" keys alpha beta) || return 1
    cat >"$work/nodes.toml" <<END
cluster = "test"
[[node]]
id = 1
name = "alpha"
address = "127.0.0.1:$port"
[[node]]
id = 2
name = "beta"
address = "127.0.0.1:$((port + 1))"
[[vm]]
id = 3
name = "shop"
slots = { alpha = [[-35, 9], [29, 99]], beta = [[10, 28], [100, 199]] }
backups = [{ slot = 10, node = "alpha" }]
END
    for node in alpha beta lone; do
        M3_DAEMON=$work/bin/m3d "$work/bin/m3" vm create shop --id 3 \
            --runtime-dir "$work/run.$node" || return 1
        [ $node != lone ] || continue
        printf 'node = "%s"\nregistry = "nodes.toml"\nkeys = "m3-keys"\nruntime_dir = "%s"\n' \
            $node "$work/run.$node" >"$work/$node.toml"
        "$work/bin/m3-proxy" run --config "$work/$node.toml" >"$work/$node.log" 2>&1 &
        proxies="$proxies $!"
    done
}
start_nodes >"$work/log" 2>&1
report $? "two nodes start" "$work/log"
run "migrate" 90 "$work/migrate" "$work/run.beta" "$work/run.alpha" "$work/run.lone"
# A program that was linked without symbol versions runs with a library that has them.
run "paper_style, linked without symbol versions" 60 "$work/paper_style.plain"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
