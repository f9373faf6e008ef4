# What run.sh, random.sh and suites.sh begin with. The script that reads this file has set `here`,
# the directory of this file.
#
# After it: `work` is a directory for the files of this run, which goes at the end; `built` holds m3
# and libm3sock.so; `passed` and `failed` are 0. M3_RUNTIME_DIR and TMPDIR lie in `work`. The
# processes of `started` end with the script.
LC_ALL=C
export LC_ALL
root=$(cd "$here/../.." && pwd)
built=${CARGO_TARGET_DIR:-$root/target}/${PROFILE:-release}
passed=0
failed=0
started=

for file in m3 libm3sock.so; do
    if [ ! -f "$built/$file" ]; then
        echo "error: there is no $built/$file; run cargo build --release first" >&2
        exit 3
    fi
done
work=$(mktemp -d "${TMPDIR:-/tmp}/m3-sockets.XXXXXX") || exit 3
trap 'for pid in $started; do kill "$pid" 2>/dev/null; done; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
M3_RUNTIME_DIR=$work/run
TMPDIR=$work
export M3_RUNTIME_DIR TMPDIR
mkdir -m 700 "$work/run"

# A counter of a file of counters, by its index. Index 0 counts the bytes through rings, 4 the
# overflows, 28, 29 and 30 the pins with the reasons `bulk`, `wakeups` and `no-gain`. The first 13
# have a row for each of 16 CPUs: the first row with the pins behind it, the others from byte 896
# on.
counter() {
    od -An -v -t u8 -w8 "$1" | awk -v at="$2" '
        NR == 66 + at || (at < 13 && NR > 112 && NR <= 352 && (NR - 113) % 16 == at) { sum += $1 }
        END { printf "%.0f\n", sum }'
}

# The last line of a script, and its exit code.
finish() {
    rm -rf "$M3_RUNTIME_DIR"/*
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
