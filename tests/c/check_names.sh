#!/bin/sh
# Checks the two sets of names of m3ipc.h.
#
# With M3_NO_SHORT_NAMES the headers define only names with a prefix. Without it, each name of
# m3ipc/short.h has a prefixed twin: M3_ANY for ANY, m3_message for message.
#
#   check_names.sh [root of the tree]      uses CC (else cc)
set -eu
LC_ALL=C
export LC_ALL

root=${1:-$(dirname "$0")/../..}
include=$root/crates/capi/include
cc=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() {
    echo "FAIL $*"
    failed=1
}

# The macros that m3ipc.h defines itself: all, less those of the system headers it includes.
macros() {
    echo '#include <m3ipc.h>' | $cc "$@" -I"$include" -x c -E -dM - | awk '{ print $2 }' |
        sed 's/(.*//' | sort
}
printf '#include <limits.h>\n#include <sched.h>\n#include <stddef.h>\n#include <stdint.h>\n' |
    $cc -x c -E -dM - | awk '{ print $2 }' | sed 's/(.*//' | sort >"$work/system"
macros -DM3_NO_SHORT_NAMES | comm -23 - "$work/system" >"$work/prefixed"
macros | comm -23 - "$work/system" >"$work/all"

prefix='^(m3_|M3_|M3IPC_|EMOL)'
grep -Ev "$prefix" "$work/prefixed" >"$work/wrong" || true
while read -r name; do fail "$name is defined in spite of M3_NO_SHORT_NAMES"; done <"$work/wrong"

# Types and tags, as the preprocessed header declares them at the end of a line.
echo '#include <m3ipc.h>' | $cc -DM3_NO_SHORT_NAMES -I"$include" -x c -E - |
    awk '/^# [0-9]+ / { ours = ($3 ~ /m3ipc/) } ours' >"$work/text"
{
    sed -n -e 's/^typedef .*[ *]\([A-Za-z_0-9]*\);$/\1/p' -e 's/^} \([A-Za-z_0-9]*\);$/\1/p' \
        "$work/text"
    sed -n 's/.*\(struct\|enum\) \([A-Za-z_0-9]*\) {.*/\2/p' "$work/text"
    sed -n 's/^ *\([A-Z][A-Z0-9_]*\) = .*/\1/p' "$work/text"
} | sort -u >"$work/types"
[ -s "$work/types" ] || fail "no type was found"
grep -Ev '^(m3_|M3_)' "$work/types" >"$work/wrong" || true
while read -r name; do fail "the type $name has no prefix"; done <"$work/wrong"

# Each name of short.h leads to its twin.
short=$include/m3ipc/short.h
sed -n -e 's/^#define \([A-Za-z0-9_]*\).* \([A-Za-z0-9_]*\)\((.*)\)\{0,1\}$/\1 \2/p' \
    -e 's/^typedef \([A-Za-z0-9_]*\) \([A-Za-z0-9_]*\);$/\2 \1/p' \
    -e 's/^  \([A-Z][A-Z0-9_]*\) = \([A-Z0-9_]*\),\{0,1\}$/\1 \2/p' "$short" >"$work/twins"
count=0
while read -r name twin; do
    count=$((count + 1))
    bare=$(echo "$name" | sed 's/^_//' | tr '[:upper:]' '[:lower:]')
    [ "$(echo "$twin" | tr '[:upper:]' '[:lower:]')" = "m3_$bare" ] ||
        fail "the twin of $name is $twin"
    grep -qx "$twin" "$work/prefixed" "$work/types" || fail "$twin, the twin of $name, is missing"
done <"$work/twins"
[ "$count" -gt 200 ] || fail "short.h has only $count names"

# Every other macro without a prefix is a word of the later releases, in later.h.
later=$include/m3ipc/later.h
grep -Ev "$prefix" "$work/all" >"$work/unprefixed"
while read -r name; do
    grep -q "^#define $name\b" "$short" "$later" || fail "$name is not in short.h or later.h"
done <"$work/unprefixed"

[ "$failed" -eq 0 ] || exit 1
echo "ok: $count short names, each with its prefixed twin"
