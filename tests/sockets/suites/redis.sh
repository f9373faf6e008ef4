# The suite of redis: part of suites.sh.

redis_unit() {
    rm -rf "$redis/tests/tmp"
    mkdir "$redis/tests/tmp"
    (cd "$redis" && as "$1" timeout -k 5 900 tclsh tests/test_helper.tcl --single "$2" --clients 1 \
        --tags -needs:debug-build 2>&1 </dev/null) >"$work/unit"
    sed 's/\x1b\[[0-9;]*m//g' "$work/unit" | UNIT=$2 awk '
        /^\[(ok|err|exception|ignore|TIMEOUT)\]/ {
            result = substr($1, 2, index($1, "]") - 2)
            sub(/^[^ ]* */, "")
            sub(/ \([0-9]+ ms\)$/, "")
            sub(/ in tests\/.*/, "")
            # Numbers of replicas are random, and so is how often a test runs.
            gsub(/[0-9]+ (seconds|bytes|keys|ms)/, "N")
            gsub(/#[0-9]+/, "#N")
            gsub(/= [0-9]+/, "= N")
            gsub(/ /, "_")
            print ENVIRON["UNIT"] "#" $0, result
        }' | sort -u
    grep -A5 -E '\[(err|exception)' "$work/unit" >&2
}

redis_suite() {
    redis=$(source_of redis) || { echo "left out: redis-suite: no source package redis"; return; }
    for file in server cli benchmark check-aof check-rdb; do
        ln -sf "$(command -v redis-$file)" "$redis/src/redis-$file"
    done
    units redis-suite 1 redis_unit $(sed -n '/set ::all_tests/,/}/s/^ *\([a-z]*\/.*\)/\1/p' \
        "$redis/tests/test_helper.tcl")
}
