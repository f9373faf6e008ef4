#!/bin/sh
# The matrix: each case of matrix.c over TCP and over Unix sockets, with the kernel's sockets and
# under `m3 sock run` in four settings, compared line by line. A case counts only where bytes went
# through a ring. A run of all cases also checks `m3 sock stat` (stat.sh), `m3 sock check --suite`
# (check.sh), where the library loads (loads.sh), and pins of streams that overflow.
#
#   tests/sockets/run.sh [CASE...]        the last line is: N passed, N failed
#   tests/sockets/run.sh loads            the cases of loads.sh alone
#
# A run of all cases has eight runs side by side: TCP and Unix sockets (KIND=tcp, KIND=unix), and of
# each three parts of the matrix and what is not in it (PART=0 to 2, PART=others). Most cases wait
# for a process, so one run leaves the CPUs idle.
#
# Needs `cargo build --release` (or what CARGO_TARGET_DIR and PROFILE name), and CC (else cc).
# The script leaves neither files nor processes behind.
set -u
here=$(cd "$(dirname "$0")" && pwd)
kinds=${KIND-tcp unix}
part=${PART-}
parts=3
runs='tcp-others unix-others tcp-0 unix-0 tcp-1 unix-1 tcp-2 unix-2'
. "$here/setup.sh"
limit=${LIMIT:-300}
# The parts of a run of all cases share its programs.
programs=${PROGRAMS:-$work/programs}
build() {
    mkdir "$programs"
    ${CC:-cc} -O1 -Wall -Wextra -Werror -Wno-unused-result -o "$programs/matrix" \
        "$here/matrix.c" "$here/streams.c" "$here/bulk.c" "$here/ready.c" "$here/life.c" \
        "$here/sets.c" "$here/pending.c" "$here/event_mask.c" "$here/threads.c" \
        "$here/fork.c" "$here/many.c" "$here/slots.c" "$here/once.c" "$here/steps.c" \
        "$here/hostile.c" "$here/pointers.c" "$here/rights.c" "$here/standard.c" \
        "$here/limits.c" "$here/order.c" "$here/ends.c" "$here/odd.c" "$here/unseen.c" \
        "$here/unseen_fork.c" "$here/rare.c" -lpthread || return
    # The program needs no C library, so any compiler for this machine can build it.
    ${CC:-cc} -O1 -Wall -static -nostdlib -ffreestanding -fno-stack-protector -fno-pie -no-pie \
        -o "$programs/static" "$here/static.c" || rm -f "$programs/static"
    for program in stat crowd lifetimes alone overflow; do
        ${CC:-cc} -O1 -Wall -Wextra -Werror -Wno-unused-result -o "$programs/$program" \
            "$here/$program.c" -lpthread || return
    done
}
[ -n "${PROGRAMS-}" ] || build || exit 3
if [ $# -eq 0 ] && [ -z "${KIND-}" ]; then
    for run in $runs; do
        PROGRAMS=$programs KIND=${run%-*} PART=${run#*-} "$here/run.sh" >"$work/$run.log" 2>&1 &
        started="$started $!"
    done
    for pid in $started; do wait "$pid"; done
    started=
    for run in $runs; do
        sed '$d' "$work/$run.log"
        totals=$(sed -n '$s/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$work/$run.log")
        if [ -z "$totals" ]; then
            tail -n 1 "$work/$run.log"
            totals='0 1'
            echo "FAIL the run $run ended early"
        fi
        passed=$((passed + ${totals% *}))
        failed=$((failed + ${totals#* }))
    done
    finish
    exit
fi
if [ -x "$programs/static" ]; then
    M3_MATRIX_STATIC=$programs/static
    export M3_MATRIX_STATIC
fi

# Some cases go on in another program with the library.
common=$(printf 'upgrade-after = 0\nchildren = ["*"]')
# A case counts only where the ring has its bytes.
rings='[test]\nalways-ring = true\nnever-rest = true\n'
printf "%s\n$rings" "$common" >"$work/default"
echo "$common" >"$work/message"
# Small rings overflow again and again, and streams must return to them.
small="${rings}never-bulk = true\\n"
printf "%s\nring-bytes = 64\n$small" "$common" >"$work/tiny"
printf "%s\nring-bytes = 256\n${small}always-wakeup = true\n" "$common" >"$work/wakeup"
printf "%s\n${rings}same-process = true\n" "$common" >"$work/same"
printf "%s\n$rings" "$common" >"$work/bulk"
# Nobody spins, so each message needs a wakeup byte.
printf '%s\nspin-us = 0\n[test]\nalways-ring = true\n' "$common" >"$work/rests"
printf "%s\nspin-us = 0\n$rings" "$common" >"$work/stays"
# A connection gets its rings after its first calls.
printf "$rings" >"$work/later"

fail() {
    failed=$((failed + 1))
    echo "FAIL $1"
    [ -z "${2-}" ] || sed 's/^/  | /' "$2" | head -40
}

# Later connections free the memory of earlier ones: 600 connections take no more room than a few.
# This holds for Unix sockets alone: a TCP socket in TIME_WAIT keeps its pair for a minute.
frees_memory() {
    rm -rf "$M3_RUNTIME_DIR"/*
    for round in 1 2 3 4 5 6 7 8 9 10; do
        timeout -k 2 "$limit" "$built/m3" sock run --policy "$work/default" -- \
            "$programs/matrix" unix many_churn >"$work/shared" 2>"$work/error" </dev/null ||
            fail "memory of earlier connections, round $round" "$work/error"
    done
    left_kb=$(du -sk "$M3_RUNTIME_DIR" | cut -f 1)
    files=$(ls "$M3_RUNTIME_DIR"/sock-* | wc -l)
    if [ "$left_kb" -gt 16384 ] || [ "$files" -gt 300 ]; then
        ls -ls "$M3_RUNTIME_DIR"/sock-* >"$work/error"
        fail "memory of earlier connections: $left_kb KiB, $files names" "$work/error"
    else
        passed=$((passed + 1))
    fi
}

# The library brings no other library into a program: each costs each start of a program.
needs_libc_alone() {
    LD_TRACE_LOADED_OBJECTS=1 LD_PRELOAD=$built/libm3sock.so /bin/true |
        awk '{ print $1 }' | grep -v -e libm3sock -e '^libc\.' -e ld-linux -e vdso >"$work/error"
    if [ -s "$work/error" ]; then
        fail "libm3sock.so needs more than libc" "$work/error"
    else
        passed=$((passed + 1))
    fi
}

one() {
    kind=$1
    case=$2
    ring=$3
    rm -rf "$M3_RUNTIME_DIR"/*
    timeout -k 2 "$limit" "$programs/matrix" "$kind" "$case" >"$work/native" \
        2>"$work/error" </dev/null
    code=$?
    if [ $code -eq 77 ]; then
        echo "left out: $kind $case: $(cat "$work/error")"
        return
    fi
    if [ $code -ne 0 ]; then
        fail "$kind $case natively" "$work/error"
        return
    fi
    settings='default tiny wakeup message'
    # The owner of a stream that it passes on has made no call then.
    [ "$case" != rare_passed ] || settings="$settings later"
    for setting in $settings; do
        M3_MATRIX_SHARED=1 timeout -k 2 "$limit" "$built/m3" sock run --policy "$work/$setting" \
            --counters "$work/counters" -- "$programs/matrix" "$kind" "$case" \
            >"$work/shared" 2>"$work/error" </dev/null
        code=$?
        diff "$work/native" "$work/shared" >"$work/difference"
        if [ $code -ne 0 ]; then
            echo "ended with $code" >>"$work/error"
            cat "$work/difference" >>"$work/error"
            fail "$kind $case $setting" "$work/error"
        elif [ -s "$work/difference" ]; then
            fail "$kind $case $setting: < native, > shared" "$work/difference"
        elif [ "$ring" = yes ] && [ $setting != message ] &&
            [ "$(counter "$work/counters" 0)" -eq 0 ]; then
            fail "$kind $case $setting: no byte went through a ring"
        else
            passed=$((passed + 1))
        fi
    done
}

# The memory of a connection goes with its last user. Of two that are killed at once, it goes with
# the next program.
lifetime() {
    rm -rf "$M3_RUNTIME_DIR"/*
    rm -f "$work/counters"
    timeout -k 2 "$limit" "$built/m3" sock run --policy "$work/default" \
        --counters "$work/counters" -- "$programs/lifetimes" "$1" "$2" >"$work/shared" \
        2>"$work/error" </dev/null
    code=$?
    # The kernel may still be at the end of the last process, until the watchdog of the case.
    until_s=$(($(date +%s) + limit))
    while
        if [ "$2" = killed_both ]; then
            "$built/m3" sock run --policy "$work/default" -- true
            code=0
        fi
        left=$(find "$M3_RUNTIME_DIR" -name '????????????????')
        [ -n "$left" ] && [ "$(date +%s)" -lt "$until_s" ]
    do
        sleep 0.1
    done
    if [ $code -ne 0 ]; then
        fail "$1 lifetime $2 ended with $code" "$work/error"
    elif [ "$(counter "$work/counters" 0)" -eq 0 ]; then
        fail "$1 lifetime $2: no byte went through a ring"
    elif [ -n "$left" ]; then
        fail "$1 lifetime $2 leaves $left"
    else
        passed=$((passed + 1))
    fi
}

# With both ends in one process, most messages go through rings, although each direction has one.
alone() {
    rm -rf "$M3_RUNTIME_DIR"/*
    timeout -k 2 "$limit" "$built/m3" sock run --policy "$work/same" --counters "$work/counters" \
        -- "$programs/alone" "$1" 50 >"$work/shared" 2>"$work/error" </dev/null
    code=$?
    ring=$(counter "$work/counters" 0)
    if [ $code -ne 0 ]; then
        fail "$1 alone ended with $code" "$work/error"
    elif [ "$ring" -lt 5000 ]; then
        fail "$1 alone: $ring of 10000 bytes through rings"
    else
        passed=$((passed + 1))
    fi
}

# Sends messages of a pattern under a policy, and shows the connection before its end:
# `overflow KIND PATTERN POLICY REASON`. Sets `code`, `shown` (directions that are pinned with the
# reason) and `overflows`.
overflow() {
    rm -rf "$M3_RUNTIME_DIR"/*
    rm -f "$work/counters"
    place=$work/$3-$1-$2
    mkdir "$place"
    timeout -k 2 "$limit" "$built/m3" sock run --policy "$work/$3" \
        --counters "$work/counters" -- "$programs/overflow" "$1" "$2" "$place" >"$work/shared" \
        2>"$work/error" </dev/null &
    running=$!
    await [ -e "$place/sent" ] || kill $running
    "$built/m3" sock stat --json >"$work/seen"
    : >"$place/end"
    wait $running
    code=$?
    cat "$work/seen" >>"$work/error"
    shown=$(grep -o "\"reason\":\"$4\"" "$work/seen" | wc -l)
    overflows=$(counter "$work/counters" 4)
}

# A direction that overflows its ring again and again is pinned, with the reason `bulk`. One that
# fits, or overflows between many small messages, is not: `bulk KIND PATTERN PINS`.
bulk() {
    overflow "$1" "$2" bulk bulk
    pins=$(counter "$work/counters" 28)
    if [ $code -ne 0 ]; then
        fail "$1 bulk $2 ended with $code" "$work/error"
    elif [ "$pins" -ne "$3" ] || [ "$shown" -ne "$3" ]; then
        fail "$1 bulk $2: $pins pins, $shown rows, $overflows overflows" "$work/error"
    elif [ "$2" != fits ] && [ "$overflows" -lt 16 ]; then
        fail "$1 bulk $2: $overflows overflows" "$work/error"
    elif [ "$(counter "$work/counters" 0)" -eq 0 ]; then
        fail "$1 bulk $2: no byte went through a ring"
    else
        passed=$((passed + 1))
    fi
}

# Both directions of a connection rest, with the reason `wakeups`, where each message needs a wakeup
# byte: `rest KIND POLICY DIRECTIONS`.
rest() {
    overflow "$1" fits "$2" wakeups
    pins=$(counter "$work/counters" 29)
    if [ $code -ne 0 ]; then
        fail "$1 rest $2 ended with $code" "$work/error"
    elif [ "$pins" -ne "$3" ] || [ "$shown" -ne "$3" ]; then
        fail "$1 rest $2: $pins pins, $shown rows" "$work/error"
    elif [ "$(counter "$work/counters" 0)" -eq 0 ]; then
        fail "$1 rest $2: no byte went through a ring"
    else
        passed=$((passed + 1))
    fi
}

# A connection whose directions rest again leaves its rings for good: `leaves KIND POLICY PINS`.
leaves() {
    overflow "$1" long "$2" no-gain
    pins=$(counter "$work/counters" 30)
    if [ $code -ne 0 ]; then
        fail "$1 leaves $2 ended with $code" "$work/error"
    elif [ "$pins" -ne "$3" ] || [ "$shown" -ne "$3" ]; then
        fail "$1 leaves $2: $pins pins, $shown rows" "$work/error"
    elif [ "$(counter "$work/counters" 0)" -eq 0 ]; then
        fail "$1 leaves $2: no byte went through a ring"
    else
        passed=$((passed + 1))
    fi
}

# Of many connections, all bytes go through rings after the first few, and each takes 12 KiB: a page
# of words and a page for each ring.
crowd() {
    rm -rf "$M3_RUNTIME_DIR"/*
    M3_MATRIX_COUNTS=$work/counters timeout -k 2 $((6 * limit)) \
        "$built/m3" sock run --policy "$work/crowd.policy" \
        --counters "$work/counters" -- "$programs/crowd" "$1" "$2" >"$work/shared" 2>"$work/error" \
        </dev/null
    code=$?
    read -r share kilobytes <"$work/shared"
    if [ $code -eq 77 ]; then
        echo "left out: $2 connections: $(cat "$work/error")"
    elif [ $code -ne 0 ]; then
        fail "$1 crowd of $2 ended with $code" "$work/error"
    elif [ "${share:-0}" -lt 9900 ] || [ "$kilobytes" -gt 12 ]; then
        fail "$1 crowd of $2: $share of 10000 bytes in rings, $kilobytes KiB each"
    else
        passed=$((passed + 1))
    fi
}

. "$here/stat.sh"
. "$here/check.sh"
. "$here/loads.sh"
if [ "$*" = loads ]; then
    loads
    finish
    exit
fi
# What is not in the matrix runs together, by any of its names.
case $* in
check | alone | bulk | rest | leaves | lifetime | crowd | stat) set -- && part=others ;;
esac
at=0
for case in ${*:-$("$programs/matrix" --list)}; do
    ring=yes
    at=$(((at + 1) % parts))
    [ "${part:-$at}" = $at ] || continue
    case $case in
    -*) ring=no case=${case#-} ;;
    esac
    for kind in $kinds; do
        # Unix sockets have no urgent bytes of this kind.
        [ "$kind $case" = "unix urgent" ] || one "$kind" "$case" $ring
    done
done
# Named cases are all of such a run, and so is a part of the matrix.
if [ $# -gt 0 ] || [ "${part:-others}" != others ]; then
    finish
    exit
fi
for kind in $kinds; do
    inspect "$kind"
    alone "$kind"
    bulk $kind overflows 1
    bulk $kind fits 0
    bulk $kind mixed 0
    rest $kind rests 2
    rest $kind stays 0
    leaves $kind rests 2
    leaves $kind stays 0
    for name in closes exits exited_server killed_client killed_server executes \
        executes_with_bytes forks passes killed_both; do
        lifetime "$kind" $name
    done
done
printf "$rings" >"$work/crowd.policy"
for kind in $kinds; do
    for count in 1000 10000; do crowd "$kind" $count; done
done
case $kinds in
*unix*)
    suites
    frees_memory
    needs_libc_alone
    kinds='tcp unix'
    loads
    ;;
esac
finish
