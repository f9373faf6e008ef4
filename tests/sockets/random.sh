#!/bin/sh
# Random sequences of socket calls (random.c): the same seed natively and under `m3 sock run`, in
# one process and in two, compared line by line.
#
#   CALLS=20000 SEEDS=2 FIRST=1 tests/sockets/random.sh     the last line is: N passed, N failed
#
# Unix sockets alone: over TCP two native runs differ (delayed acknowledgements, Nagle's delay). A
# seed counts only where bytes went through a ring. Needs what run.sh needs.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/setup.sh"
calls=${CALLS:-5000}
seeds=${SEEDS:-4}
first=${FIRST:-1}
${CC:-cc} -O1 -Wall -Wextra -Werror -Wno-unused-result -o "$work/random" "$here/random.c" || exit 3
test='[test]\nsame-process = true\n'
printf "upgrade-after = 0\n${test}always-ring = true\n" >"$work/default"
printf "upgrade-after = 0\nring-bytes = 256\n${test}always-ring = true\n" >"$work/small"
printf "upgrade-after = 0\n$test" >"$work/message"

one() {
    for policy in default small message; do
        rm -f "$work/counters"
        timeout 600 "$built/m3" sock run --policy "$work/$policy" --counters "$work/counters" -- \
            "$work/random" "$1" "$calls" unix "$2" >"$work/shared" 2>"$work/error"
        code=$?
        ring=$(counter "$work/counters" 0)
        if [ $code -ne 0 ] || ! diff "$work/native" "$work/shared" >"$work/difference"; then
            failed=$((failed + 1))
            echo "FAIL seed $1 in $2, $policy: ended with $code; < native, > shared"
            head -5 "$work/error" "$work/difference"
        elif [ $policy != message ] && [ "$ring" -eq 0 ]; then
            failed=$((failed + 1))
            echo "FAIL seed $1 in $2, $policy: no byte went through a ring"
        else
            passed=$((passed + 1))
        fi
    done
}

seed=$first
while [ "$seed" -lt $((first + seeds)) ]; do
    for mode in one two; do
        "$work/random" "$seed" "$calls" unix $mode >"$work/native" || exit 3
        one "$seed" $mode
    done
    seed=$((seed + 1))
done
echo "$((seeds * calls)) calls natively and under m3 sock run, in four settings"
finish
