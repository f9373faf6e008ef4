# `m3 sock check --suite`: part of run.sh, which counts and reports.

# `suite NAME CODE PATTERN ARGUMENT...`: the exit code and a line of the output.
suite() {
    name=$1
    expected=$2
    pattern=$3
    shift 3
    timeout -k 2 "$limit" "$built/m3" sock check "$@" >"$work/seen" 2>&1 </dev/null
    code=$?
    if [ $code -eq "$expected" ] && grep -Eq -- "$pattern" "$work/seen"; then
        passed=$((passed + 1))
    else
        echo "ended with $code" >>"$work/seen"
        fail "check --suite $name: no $pattern" "$work/seen"
    fi
}

suites() {
    place=$work/project
    mkdir "$place"
    printf 'check:\n\t@./test\n' >"$place/Makefile"
    cat >"$place/test" <<'SUITE'
#!/bin/sh
"$MATRIX" tcp once_half >/dev/null || exit 1
echo "ok 1 - once"
echo "ok 2 - no # SKIP of no use"
SUITE
    chmod 755 "$place/test"
    MATRIX=$programs/matrix
    export MATRIX
    with="--policy $work/default --suite $place"
    suite same 0 '^same, [1-9][0-9]* bytes through rings' $with --strict
    suite counts 0 '^m3 sock run +0 +1 +0 +1' $with
    suite json 0 '"verdict":"same"' $with --json
    suite command 0 '^same, 0 bytes' $with -- true
    suite strict 1 'no byte of the suite' $with --strict -- true
    suite code 0 '^natively +3 +- ' $with -- sh -c 'exit 3'
    # The environment does not show the library.
    suite differs 1 '^differs' $with -- \
        sh -c 'grep -q libm3sock "/proc/$$/maps" && echo not ok 1 - a || echo ok 1 - a'
    suite exit 1 '^differs' $with -- sh -c '! grep -q libm3sock "/proc/$$/maps"'
    # Each run has another number of tests, so equal runs never follow one another.
    suite unsteady 0 '^unsteady natively' $with --rounds 4 -- \
        sh -c 'echo >>lines; seq -f "ok %.0f" $(($(wc -l <lines) / 2 % 2 + 1))'
    mkdir "$work/nothing"
    suite nothing 2 'after `--`' --suite "$work/nothing"
    suite absent 2 'is not a directory' --suite "$work/absent"
    rm -rf "$work"/m3-sock-check-suite-*
}
