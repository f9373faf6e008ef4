# The tests of tokio's crate: part of suites.sh.

tokio_binary() {
    ls -t "$store"/tokio-built/debug/deps/"$1"-* | grep -v '\.d$' | head -1
}

# A unit is a test binary, or BINARY::TEST.
tokio_unit() {
    only=
    [ "${2#*::}" = "$2" ] || only="--exact ${2#*::}"
    (cd "$store/tokio" && as "$1" timeout -k 5 900 "$(tokio_binary "${2%%::*}")" $only 2>&1 \
        </dev/null) >"$work/unit"
    sed -nE "s/^test (\S+)( - should panic)? \.\.\. (\S+).*/${2%%::*}::\1 \3/p" "$work/unit"
    grep -A3 -E '^---- |panicked' "$work/unit" >&2
}

tokio_suite() {
    if [ ! -f "$store/tokio-built/done" ]; then
        from=$(cd "$root" && cargo metadata --format-version 1 2>/dev/null |
            grep -o '"manifest_path":"[^"]*/tokio-1[^"/]*/Cargo.toml"' | head -1 |
            sed 's/.*:"\(.*\)\/Cargo.toml"/\1/')
        [ -d "$from/tests" ] || { echo "left out: tokio: its crate is not here"; return; }
        mkdir -p "$store"
        rm -rf "$store/tokio"
        cp -r "$from" "$store/tokio"
        # The crates that its tests use depend on tokio again.
        printf '\n[patch.crates-io]\ntokio = { path = "." }\n\n[workspace]\n' \
            >>"$store/tokio/Cargo.toml"
        rm -f "$store/tokio/Cargo.lock"
        names=$(cd "$store/tokio/tests" && ls tcp_*.rs uds_*.rs net_*.rs io_driver*.rs \
            io_async_fd.rs io_copy_bidirectional.rs process_*.rs udp.rs rt_threaded.rs \
            unix_*.rs 2>/dev/null | sed 's/\.rs$//' | grep -vE 'windows|named_pipe')
        (cd "$store/tokio" && cargo test -j2 --features full --no-run \
            --target-dir "$store/tokio-built" $(printf -- '--test %s ' $names)) \
            >"$work/build" 2>&1 || {
            echo "left out: tokio: it does not build: $(tail -1 "$work/build")"
            return
        }
        echo "$names" >"$store/tokio-built/done"
    fi
    units tokio 1 tokio_unit $(cat "$store/tokio-built/done")
}
