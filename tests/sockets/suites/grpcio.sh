# gRPC by grpcio of PyPI: part of suites.sh.

# The Python that has grpcio.
grpcio_python() {
    if [ ! -f "$store/grpcio/done" ]; then
        command -v python3 >/dev/null || return
        rm -rf "${store:?}/grpcio"
        python3 -m venv "$store/grpcio" || return
        "$store/grpcio/bin/pip" install grpcio >/dev/null 2>&1 || return
        : >"$store/grpcio/done"
    fi
    echo "$store/grpcio/bin/python"
}

# The route guide with a server and a client of these modes: `grpcio_pair SERVER CLIENT ADDRESS`.
grpcio_pair() {
    mkfifo "$work/grpcio.in"
    (as "$1" "$grpcio" "$here/suites/grpcio.py" serve "$3") \
        <"$work/grpcio.in" >"$work/grpcio.out" &
    server=$!
    exec 5>"$work/grpcio.in"
    while kill -0 $server 2>/dev/null && ! grep -q ready "$work/grpcio.out"; do sleep 0.1; done
    at=$(sed -n 's/^ready //p' "$work/grpcio.out")
    (as "$2" timeout -k 5 300 "$grpcio" "$here/suites/grpcio.py" ask "$at") </dev/null
    [ $? -eq 0 ] || echo "the client failed"
    exec 5>&-
    wait $server || echo "the server failed"
    rm -f "$work/grpcio.in" "$work/grpcio.out"
}

grpcio_run() {
    for address in 127.0.0.1:0 "unix:$work/grpcio.sock"; do
        for pair in "$1 $1" "$1 native" "native $1"; do
            # shellcheck disable=SC2086 # two words
            grpcio_pair $pair "$address"
        done
    done
}

grpcio_suite() {
    grpcio=$(grpcio_python) || { echo "left out: grpcio: pip cannot install it"; return; }
    both grpcio 1 grpcio_run
}
