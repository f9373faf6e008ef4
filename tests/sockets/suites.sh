#!/bin/bash
# Outside programs and suites, natively and under `m3 sock run`: the results must be equal, and
# bytes must go through rings.
#
#   tests/sockets/suites.sh [NAME...]        the last line is: N passed, N failed
#
# A suite whose package is absent is named and left out. Programs come from Debian packages:
# redis-server, redis-tools, nginx, haproxy, curl, openssh-server, openssh-client, rsync, git,
# nodejs, postgresql. CPython's suites are libpython3.11-testsuite. The suites of redis (needs tcl),
# libuv (needs cmake) and node come with Debian's source packages, tokio's with its crate:
# suites/fetch.sh fetches them once into the directory SUITES (target/suites). grpcio is from PyPI.
#
# PART=28-40 runs the 28th to the 40th unit of each suite that has units.
#
# Both ends in many suites are one process: the test switch `same-process` upgrades them.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/setup.sh"
chmod 755 "$work"
programs="redis nginx haproxy ssh rsync git node postgresql"
wanted=${*:-python $programs redis-suite libuv tokio node-suite grpcio}
printf 'upgrade-after = 0\n[test]\nsame-process = true\nalways-ring = true\n' >"$work/policy"
drop=

# Runs a command natively or under the library.
as() {
    mode=$1
    shift
    if [ "$mode" = shared ]; then
        exec $drop "$built/m3" sock run --children --policy "$work/policy" \
            --counters "$counters.$BASHPID" -- "$@"
    fi
    exec $drop "$@"
}

# All bytes through rings: each program that `as` started has counters of its own.
ring_bytes() {
    sum=0
    for file in "$counters".*; do
        [ -s "$file" ] && sum=$((sum + $(counter "$file" 0)))
    done
    echo $sum
}

# Compares two files of results: `judge NAME LEAST WHAT`, with the least number of bytes through
# rings, and what to say of the results.
judge() {
    ring=$(ring_bytes)
    if ! cmp -s "$work/native" "$work/shared"; then
        failed=$((failed + 1))
        echo "FAIL $1: < native, > under m3 sock run"
        diff "$work/native" "$work/shared" | head -40
        head -5 "$work/error.shared"
    elif [ -z "$3" ]; then
        failed=$((failed + 1))
        echo "FAIL $1: no result"
    elif [ "$ring" -lt "$2" ]; then
        failed=$((failed + 1))
        echo "FAIL $1: $ring bytes through rings"
    else
        passed=$((passed + 1))
        echo "ok $1: $3, $ring bytes through rings"
    fi
}

begin() {
    drop=
    counters=$work/counters
    rm -rf "$counters".* "$M3_RUNTIME_DIR"/*
    : >"$work/native"
    : >"$work/shared"
}

# `both NAME LEAST FUNCTION`: the function writes its results for a mode.
both() {
    begin
    "$3" native >"$work/native" 2>"$work/error.native"
    "$3" shared >"$work/shared" 2>"$work/error.shared"
    judge "$1" "$2" "$(tail -1 "$work/native" | cut -c1-60)"
}

# How often each result occurs: 12 ok, 3 skipped.
totals() {
    cut -d' ' -f2 "$1" | sort | uniq -c | awk '{ printf "%s%s %s", s, $1, $2; s = ", " }'
}

# The lines of a file, or of standard input, about one test.
lines_of() {
    NAME="$1 " awk 'index($0, ENVIRON["NAME"]) == 1' ${2+"$2"}
}

# The results of one test in a mode, which is run again: `again MODE TEST`.
again() {
    "$run" "$1" "${2%%#*}" 2>/dev/null | lines_of "$2"
}

# A test with two results may be unsteady by itself. It runs five times more in both modes. The
# result is the native one if the test is unsteady natively too, with at least this result among
# its own, or if all five agree.
settle() {
    differing=$(diff "$work/native" "$work/shared" | sed -n 's/^[<>] //p' | cut -d' ' -f1 | sort -u)
    [ "$(echo "$differing" | wc -w)" -le 40 ] || return
    for test in $differing; do
        lines_of "$test" "$work/native" >"$work/seen.native"
        : >"$work/seen.shared"
        for try in 1 2 3 4 5; do
            again native "$test" >>"$work/seen.native"
            again shared "$test" >>"$work/seen.shared"
        done
        sort -u -o "$work/seen.native" "$work/seen.native"
        sort -u -o "$work/seen.shared" "$work/seen.shared"
        if [ -s "$work/seen.shared" ] &&
            [ -z "$(comm -13 "$work/seen.native" "$work/seen.shared")" ]; then
            echo "unsteady: $(tr '\n' ';' <"$work/seen.native") natively"
            for mode in native shared; do
                lines_of "$test" "$work/$mode" | comm -23 "$work/$mode" - >"$work/rest"
                mv "$work/rest" "$work/$mode"
            done
        fi
    done
}

# `units NAME LEAST FUNCTION UNIT...`: `FUNCTION MODE UNIT` writes lines `TEST RESULT`. A TEST, or
# its part before a #, is also a unit, which is run again where its results differ.
units() {
    suite=$1 least=$2 run=$3
    shift 3
    [ -z "${PART-}" ] || set -- $(printf '%s\n' "$@" | sed -n "${PART%-*},${PART#*-}p")
    begin
    for unit in "$@"; do
        "$run" native "$unit" 2>>"$work/error.native" >>"$work/native"
        "$run" shared "$unit" 2>>"$work/error.shared" >>"$work/shared"
    done
    for mode in native shared; do sort -o "$work/$mode" "$work/$mode"; done
    told=$(totals "$work/native")
    settle
    judge "$suite" "$least" "$told"
}

for part in fetch python programs redis libuv tokio node grpcio; do . "$here/suites/$part.sh"; done

for name in $wanted; do
    case $name in
    python) python_suites ;;
    redis) has redis-server redis-benchmark redis-cli && both redis 1 redis_run ;;
    nginx) has nginx curl && both nginx 1 nginx_run ;;
    haproxy) has haproxy nginx curl && both haproxy 1 haproxy_run ;;
    ssh) has sshd ssh scp sftp && both ssh 0 ssh_run ;;
    rsync) has rsync && both rsync 1 rsync_run ;;
    git) has git && both git 0 git_run ;;
    node) has node && both node 0 node_run ;;
    redis-suite) has redis-server redis-cli tclsh && redis_suite ;;
    libuv) has cmake && libuv_suite ;;
    tokio) has cargo && tokio_suite ;;
    node-suite) has node && node_suite ;;
    grpcio) has python3 && grpcio_suite ;;
    postgresql)
        if ls -d /usr/lib/postgresql/*/bin >/dev/null 2>&1; then
            both postgresql 1 postgresql_run
        else
            echo "left out: postgresql is not installed"
        fi
        ;;
    *) echo "there is no suite $name" >&2; exit 2 ;;
    esac
done
finish
