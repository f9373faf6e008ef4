# The suite of libuv: part of suites.sh.

# Tests that need a network, a terminal, or a user that is not root, natively too.
libuv_unit() {
    (cd "$libuv" && UV_RUN_AS_ROOT=1 as "$1" timeout -k 5 1200 "$libuv/built/uv_run_tests" \
        ${2#all} </dev/null) 2>"$work/errors" |
        sed -nE -e 's/^ok [0-9]+ - (\S+) # SKIP.*/\1 skipped/p;t' \
            -e 's/^ok [0-9]+ - (\S+).*/\1 ok/p' -e 's/^not ok [0-9]+ - (\S+).*/\1 failed/p'
    cat "$work/errors" >&2
}

libuv_suite() {
    libuv=$(source_of libuv1) || { echo "left out: libuv: no source package libuv1"; return; }
    if [ ! -x "$libuv/built/uv_run_tests" ]; then
        cmake -S "$libuv" -B "$libuv/built" -DBUILD_TESTING=ON -DCMAKE_BUILD_TYPE=Release \
            >"$work/build" 2>&1 &&
            cmake --build "$libuv/built" -j2 --target uv_run_tests >>"$work/build" 2>&1 || {
            echo "left out: libuv: it does not build: $(tail -1 "$work/build")"
            return
        }
    fi
    units libuv 1 libuv_unit all
}
