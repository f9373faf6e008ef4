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
# overflows, 28 and 29 the pins with the reasons `bulk` and `wakeups`.
counter() {
    od -An -t u8 -j $((520 + 8 * $2)) -N 8 "$1" | tr -d ' '
}

# The last line of a script, and its exit code.
finish() {
    rm -rf "$M3_RUNTIME_DIR"/*
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
