# The rows of `m3 sock stat` for one connection: part of run.sh, which counts and reports.

# Waits for a minute at most, until a command succeeds: `await COMMAND...`.
await() {
    step=0
    until "$@"; do
        step=$((step + 1))
        [ $step -lt 600 ] || return 1
        sleep 0.1
    done
}

# The output of `m3 sock stat WORD...` must match a pattern: `shows NAME PATTERN WORD...`, or must
# not match it: `lacks NAME PATTERN WORD...`.
matches() {
    name="$kind stat ${1#"$kind "}"
    pattern=$2
    shift 2
    timeout -k 2 "$limit" "$built/m3" sock stat "$@" >"$work/seen" 2>"$work/error" </dev/null ||
        echo "ended with $?" >>"$work/seen"
    grep -Eq -- "$pattern" "$work/seen"
}
shows() {
    if matches "$@"; then passed=$((passed + 1)); else fail "$name: no $2" "$work/seen"; fi
}
lacks() {
    if matches "$@"; then fail "$name: $2" "$work/seen"; else passed=$((passed + 1)); fi
}

has_lines() {
    [ "$(wc -l <"$2")" -ge "$1" ]
}

inspect() {
    kind=$1
    place=$work/stat-$kind
    mkdir "$place"
    timeout -k 2 "$limit" "$built/m3" sock run --policy "$work/bulk" -- \
        "$programs/stat" "$kind" "$place" >"$work/error" 2>&1 </dev/null &
    running=$!
    if ! await [ -e "$place/ready" ]; then
        fail "$kind stat: the programs do not start" "$work/error"
        kill $running
        return
    fi
    # The only child of `timeout` is the program.
    pid=$(cat "/proc/$running/task/$running/children" | tr -d ' ')
    port=$(cat "$place/ready")
    only="--pid $pid"
    [ "$kind" = unix ] || only="--port $port"
    where="127\.0\.0\.1:$port"
    [ "$kind" = tcp ] || where=$place/socket

    shows "$kind both ends" "stat\[$pid\] $where +stat\[[0-9]+\]" $only
    shows "$kind state" "^1 .* established +ring +[1-9]" $only
    in_ring='"ring_bytes":[1-9].*"route":"ring"'
    shows "$kind json" "$in_ring.*$in_ring" --json $only
    shows "$kind by process" "stat\[$pid\]" --pid "$pid"
    lacks "$kind of another process" "stat\[$pid\]" --pid 1
    lacks "$kind of another port" "stat\[$pid\]" --port 1
    : >"$place/pour"
    await [ -e "$place/poured" ]
    shows "$kind overflow" "\"overflows\":[1-9]" --json $only
    shows "$kind full ring" " kernel +[0-9]+ +[1-9][0-9]* +65536 " $only
    : >"$place/pin"
    await [ -e "$place/pinned" ]
    shows "$kind pin" "pinned: stdio" $only

    : >"$work/watched"
    "$built/m3" sock stat --json --watch=1 $only >"$work/watched" 2>&1 </dev/null &
    watching=$!
    await has_lines 2 "$work/watched"
    kill $watching
    wait $watching 2>/dev/null
    if [ "$(grep -c "\"connection\":\"$kind\"" "$work/watched")" -ge 2 ]; then
        passed=$((passed + 1))
    else
        fail "$kind stat watch" "$work/watched"
    fi

    : >"$place/end"
    wait $running || fail "$kind stat: the programs end with $?" "$work/error"
    lacks "$kind after its end" "established" $only
    shows "$kind that is over" " over +pinned: stdio" --all $only
}
