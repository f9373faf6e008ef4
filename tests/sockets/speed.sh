#!/bin/sh
# Programs natively and under `m3 sock run`, on idle CPUs and beside a busy loop for each CPU:
# alternating rounds, the ratio of each program. Prints ratios and asserts no times; fails where a
# program works natively and fails under `m3 sock run`.
#
#   ROUNDS=3 SECONDS_PER_RUN=2 tests/sockets/speed.sh [--only WORD...]
#
# The ratios mean something on a machine that does nothing else. Needs `cargo build --release`, and
# the Debian packages nginx-light, wrk, haproxy, postgresql, redis-server, redis-tools, memcached,
# libmemcached-tools and iperf3 as far as they are to be compared.
set -u
here=$(cd "$(dirname "$0")" && pwd)
built=${CARGO_TARGET_DIR:-$here/../../target}/${PROFILE:-release}
rounds=${ROUNDS:-3}
seconds=${SECONDS_PER_RUN:-2}
if [ ! -f "$built/m3" ]; then
    echo "error: there is no $built/m3; run cargo build --release first" >&2
    exit 3
fi
status=0
for load in "" --busy; do
    echo "== ${load:-idle}   load before: $(cut -d ' ' -f 1-3 /proc/loadavg)"
    # shellcheck disable=SC2086
    "$built/m3" sock check --rounds "$rounds" --seconds "$seconds" $load "$@" ||
        status=1
done
exit $status
