# The tests of node about sockets and processes: part of suites.sh.

node_unit() {
    flags=$(sed -n 's|^// Flags: ||p' "$node/test/parallel/$2.js" | tr '\n' ' ')
    (cd "$node" && TEST_SERIAL_ID=0 as "$1" timeout -k 5 60 node $flags \
        "test/parallel/$2.js" </dev/null) >/dev/null 2>"$work/errors"
    echo "$2 $?"
    tail -5 "$work/errors" >&2
}

node_suite() {
    node=$(source_of nodejs '*/test/*') || {
        echo "left out: node-suite: no source package nodejs"
        return
    }
    units node-suite 1 node_unit $(cd "$node/test/parallel" &&
        ls test-{net,http,http2,https,tls,child-process,pipe,stdio,dgram}-*.js | sed 's/\.js$//')
}
