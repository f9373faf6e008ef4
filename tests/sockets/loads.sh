# Where the library loads, and what programs see of it: part of run.sh, which counts and reports.

# A program writes the same and ends in the same way natively and under `m3 sock run`, whose
# children are native: `alike NAME [ARGUMENT...]`. `ring` counts the bytes through rings.
alike() {
    program=$work/$1
    case=$*
    shift
    "$program" "$@" >"$work/native" 2>&1 </dev/null
    expected=$?
    rm -f "$work/counters"
    timeout -k 2 "$limit" "$built/m3" sock run --policy "$work/loads.policy" \
        --counters "$work/counters" -- "$program" "$@" >"$work/shared" 2>&1 </dev/null
    code=$?
    ring=$(counter "$work/counters" 0)
    if [ $code -ne $expected ] || ! cmp -s "$work/native" "$work/shared"; then
        echo "ended with $code, natively with $expected" >>"$work/shared"
        fail "$case" "$work/shared"
    else
        passed=$((passed + 1))
    fi
}

# The same, with bytes through rings.
alike_by_ring() {
    alike "$@"
    [ "$ring" -gt 0 ] || fail "$*: no byte went through a ring"
}

# `writes NAME EXPECTED WORD...`: what a command under `m3 sock run WORD...` writes.
writes() {
    name=$1
    expected=$2
    shift 2
    timeout -k 2 "$limit" "$built/m3" sock run "$@" >"$work/shared" 2>&1 </dev/null
    if [ "$(tr '\n' ' ' <"$work/shared")" = "$expected" ]; then
        passed=$((passed + 1))
    else
        fail "$name: not $expected" "$work/shared"
    fi
}

# Each line is 0 for a process without the library: the program, its fork, a program that it starts.
where_it_loads() {
    cat >"$work/where" <<'WHERE'
import os, subprocess, sys
def count(): return sum("libm3sock" in line for line in open("/proc/self/maps")) and 1
print(count(), flush=True)
if os.fork() == 0:
    print(count(), flush=True)
    os._exit(0)
os.wait()
text = "print(sum('libm3sock' in line for line in open('/proc/self/maps')) and 1)"
subprocess.run([os.path.realpath(sys.executable), "-c", text])
print(sum(name.startswith(("M3SOCK_", "LD_PRELOAD")) for name in os.environ), flush=True)
WHERE
    # Not a script that executes it.
    python3=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
    python=$(basename "$python3")
    printf '[programs]\ndeny = ["%s"]\n' "$python" >"$work/deny.policy"
    echo 'on = false' >"$work/off.policy"
    writes default '1 1 0 0 ' -- "$python3" "$work/where"
    writes all-children '1 1 1 0 ' --children -- "$python3" "$work/where"
    writes one-child '1 1 1 0 ' --children="sh,$python" -- "$python3" "$work/where"
    writes other-child '1 1 0 0 ' --children=sh -- "$python3" "$work/where"
    {
        echo "#!/usr/bin/env $python3"
        echo 'print(sum("libm3sock" in line for line in open("/proc/self/maps")) and 1)'
    } >"$work/script"
    chmod 755 "$work/script"
    writes script '1 ' -- "$work/script"
    writes denied '0 0 0 0 ' --children --policy "$work/deny.policy" -- "$python3" "$work/where"
    writes off '0 0 0 0 ' --children --policy "$work/off.policy" -- "$python3" "$work/where"
}

# No hook calls a hook through the dynamic table, where a program's own function comes first.
hooks_are_bound() {
    nm -D --defined-only "$built/libm3sock.so" | awk '{ print $3 }' >"$work/hooks"
    readelf -rW "$built/libm3sock.so" | awk '/JUMP_SLO|GLOB_DAT/ { sub("@.*", "", $5); print $5 }' |
        grep -Fx -f "$work/hooks" >"$work/error"
    if [ ! -s "$work/hooks" ] || [ -s "$work/error" ]; then
        fail "hooks that are called through the dynamic table" "$work/error"
    else
        passed=$((passed + 1))
    fi
}

# A program has an ignored SIGPIPE where it has one natively.
keeps_ignored_pipe() {
    for trapped in '' -; do
        (trap "$trapped" PIPE && grep SigIgn /proc/self/status) >"$work/native"
        (trap "$trapped" PIPE && "$built/m3" sock run -- grep SigIgn /proc/self/status) \
            >"$work/shared" 2>&1
        if cmp -s "$work/native" "$work/shared"; then
            passed=$((passed + 1))
        else
            fail "a SIGPIPE with the trap '$trapped'" "$work/shared"
        fi
    done
}

# Children in another directory count in the file of the program, and in no other file.
counts_in_one_file() {
    mkdir "$work/elsewhere"
    head -c 4096 /dev/zero >"$work/zeros"
    cp "$work/zeros" "$work/elsewhere/counts"
    chmod 600 "$work/elsewhere/counts"
    (cd "$work" && timeout -k 2 "$limit" "$built/m3" sock run --policy "$work/default" \
        --counters counts -- sh -c 'cd elsewhere && exec "$0" unix once_half' \
        "$programs/matrix") >"$work/shared" 2>&1 </dev/null
    if [ "$(counter "$work/counts" 0)" -gt 0 ] &&
        cmp -s "$work/zeros" "$work/elsewhere/counts"; then
        passed=$((passed + 1))
    else
        fail 'children in another directory count elsewhere' "$work/shared"
    fi
}

loads() {
    for name in names storage inherit; do
        ${CC:-cc} -O1 -Wall -Wextra -Werror -rdynamic -o "$work/$name" "$here/$name.c" || exit 3
    done
    printf "upgrade-after = 0\n$rings" >"$work/loads.policy"
    hooks_are_bound
    keeps_ignored_pipe
    counts_in_one_file
    alike names
    alike_by_ring storage
    for kind in $kinds; do
        alike_by_ring inherit "$kind" passes
        alike_by_ring inherit "$kind" leaks
        # The library needs no descriptor of the program.
        alike_by_ring inherit "$kind" full
    done
    if command -v python3 >/dev/null; then
        where_it_loads
    else
        echo "left out: where the library loads: python3 is not installed"
    fi
}
