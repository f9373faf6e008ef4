#!/bin/sh
# Tests m3ipc.hpp: compiles each header by itself, the program calls.cpp with GCC and Clang under
# the sanitizers, a program of CMake's target m3ipc::cpp, and the example of examples/cpp. The
# program random.cpp has 64 requests in flight under kills, for M3_SOAK_SECONDS (else 2).
#
#   tests/cpp/run.sh          the last line is: N passed, N failed
#
# Uses CARGO_TARGET_DIR (else target), PROFILE (else release), CARGO (else cargo), GXX (else g++)
# and CLANGXX (else clang++-19 or clang++). A compiler that is absent, and CMake, are skipped
# visibly. M3_NO_BUILD=1 tests the programs that are built already. Leaves neither files nor
# processes behind.
set -u
LC_ALL=C
export LC_ALL

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
profile=${PROFILE:-release}
cargo=${CARGO:-cargo}
xtask=${XTASK:-$cargo xtask}
include=$root/crates/capi/include
passed=0
failed=0

work=$(mktemp -d "${TMPDIR:-/tmp}/m3ipc-cpp.XXXXXX") || exit 3

# Ends each daemon that still runs in our folder, by the process id in its lock.
finish() {
    for lock in "$work"/run.*/lock; do
        [ -s "$lock" ] || continue
        pid=$(cat "$lock")
        case $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) in
        *m3d*) kill "$pid" 2>/dev/null ;;
        esac
    done
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# $1: exit code; $2: name of the case. The output of the case is in $work/log.
report() {
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
        echo "PASS $2"
    else
        failed=$((failed + 1))
        echo "FAIL $2"
        sed 's/^/  | /' "$work/log"
    fi
}

# $1: name of the case; the rest: a command, run with a node of its own.
run() {
    name=$1
    shift
    runs=$((${runs:-0} + 1))
    mkdir -m 700 "$work/run.$runs"
    limit=$((120 + ${M3_SOAK_SECONDS:-2}))
    M3_RUNTIME_DIR=$work/run.$runs M3_DAEMON=$target/$profile/m3d \
        LD_LIBRARY_PATH=$work/lib timeout -k 1 "$limit" "$@" >"$work/log" 2>&1 </dev/null
    report $? "$name"
}

no_build=
[ "${M3_NO_BUILD-}" != 1 ] || no_build=--no-build
[ -n "$no_build" ] || $cargo build --manifest-path "$root/Cargo.toml" \
    --profile "$profile" -p m3ipc-capi -p m3ipc-daemon || {
    echo "FAIL build"
    echo "0 passed, 1 failed"
    exit 1
}
mkdir "$work/lib"
cp "$target/$profile/libm3ipc_c.so" "$work/lib/libm3ipc.so.0"
ln -s libm3ipc.so.0 "$work/lib/libm3ipc.so"

gxx=${GXX:-g++}
clangxx=${CLANGXX:-$(command -v clang++-19 || command -v clang++ || echo clang++)}
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
sanitizers="-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined"
for cxx in "$gxx" "$clangxx"; do
    name=$(basename "$cxx")
    compiler=$name # `run` has a name of its own
    command -v "$cxx" >/dev/null || { echo "SKIP $name: it is not installed"; continue; }
    for header in m3ipc.hpp m3ipc/result.hpp m3ipc/view.hpp m3ipc/endpoint.hpp m3ipc/sock.hpp; do
        for standard in c++17 c++20; do
            echo "#include <$header>" | $cxx -std=$standard $warnings -I"$include" \
                -fsyntax-only -x c++ - >"$work/log" 2>&1
            report $? "$name, $standard: $header by itself"
        done
    done
    # The header adds no macro without a prefix to those of the headers that it includes.
    { echo '#define M3_NO_SHORT_NAMES'; cat "$include/m3ipc.hpp" "$include"/m3ipc/*.hpp; } |
        sed -n 's/^ *#include \(<.*>\|"m3ipc.h"\|"sock.h"\)$/#include \1/p' |
        $cxx -std=c++17 -I"$include" -I"$include/m3ipc" -x c++ -E -dM - | sort >"$work/others"
    echo '#include <m3ipc/sock.hpp>' | $cxx -std=c++17 -I"$include" -x c++ -E -dM - | sort |
        comm -13 "$work/others" - | grep -v '^#define M3' >"$work/log"
    [ ! -s "$work/log" ]
    report $? "$name: no macro without the prefix M3"
    $cxx -std=c++17 -fno-exceptions $warnings -I"$include" -fsyntax-only -x c++ \
        "$include/m3ipc/sock.hpp" >"$work/log" 2>&1
    report $? "$name: compiles without exceptions"
    if ! echo 'int main() {}' | $cxx $sanitizers -x c++ -o "$work/empty" - >"$work/log" 2>&1; then
        echo "SKIP $name: it has no sanitizers (Debian: libclang-rt-VERSION-dev)"
        continue
    fi
    $cxx -std=c++17 $warnings $sanitizers -I"$include" -o "$work/calls.$name" "$here/calls.cpp" \
        -L"$work/lib" -lm3ipc -lpthread >"$work/log" 2>&1
    report $? "$name: compile calls.cpp with the sanitizers"
    run "$name: calls.cpp" "$work/calls.$name"
    tail -n 1 "$work/log" | sed 's/^/  /'
    $cxx -std=c++17 $warnings $sanitizers -I"$include" -o "$work/random.$compiler" \
        "$here/random.cpp" -L"$work/lib" -lm3ipc -lpthread >"$work/log" 2>&1
    report $? "$compiler: compile random.cpp with the sanitizers"
    run "$compiler: random.cpp" "$work/random.$compiler"
    tail -n 5 "$work/log" | sed 's/^/  /'
done

run "examples/cpp" make -C "$root/examples/cpp" run OUT="$work/example" BUILT="$target/$profile"
for line in 'client A left after progress 100' 'client B was killed after progress 49' \
    'the timer ran; the highest priority was 7'; do
    grep -qx "$line" "$work/log"
    report $? "examples/cpp: $line"
done

programs=$target/$profile/m3-proxy
if command -v cmake >/dev/null && { [ -z "$no_build" ] || [ -x "$programs" ]; }; then
    (cd "$root" && $xtask install $no_build --profile "$profile" --prefix "$work/root") \
        >"$work/log" 2>&1
    report $? "cargo xtask install"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' 'project(calls CXX)' \
        'find_package(m3ipc 0.1 REQUIRED)' "add_executable(calls $here/calls.cpp)" \
        'target_link_libraries(calls m3ipc::cpp pthread)' >"$work/CMakeLists.txt"
    { cmake -S "$work" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$work/root" &&
        cmake --build "$work/cmake"; } >"$work/log" 2>&1
    report $? "CMake: the target m3ipc::cpp"
    run "CMake: calls.cpp" "$work/cmake/calls"
else
    echo "SKIP CMake: cmake or the installed programs are absent"
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
