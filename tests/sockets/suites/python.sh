# CPython's suites: part of suites.sh.

# The Python whose tests run: Debian's if it has its suite, else the first one of PATH that has.
python_with_tests() {
    for python in /usr/bin/python3 "$(command -v python3)"; do
        [ -x "$python" ] && "$python" -c 'import test.test_socket' 2>/dev/null && {
            "$python" -c 'import sys; print(sys.executable)'
            return
        }
    done
    return 1
}

python_test() {
    rm -f "$work/lines"
    (as "$1" timeout -k 5 1200 "$python" -W ignore "$here/suites/unit.py" "$work/lines" "$2") \
        >/dev/null </dev/null
    code=$?
    [ ! -f "$work/lines" ] || cat "$work/lines"
    [ $code -eq 0 ] || echo "$2 ended-with-$code"
}

python_suites() {
    python=$(python_with_tests) || {
        echo "left out: python: libpython3.11-testsuite is not installed"
        return
    }
    for module in select poll epoll selectors socket socketserver ssl ftplib poplib imaplib \
        smtplib httplib httpservers xmlrpc logging multiprocessing_fork \
        multiprocessing_forkserver multiprocessing_spawn; do
        least=1
        case $module in select | poll | epoll | selectors) least=0 ;; esac
        units "python test_$module" $least python_test "test.test_$module"
    done
    units "python test_asyncio" 1 python_test $("$python" -c '
import pkgutil, test.test_asyncio as package
for each in pkgutil.iter_modules(package.__path__):
    if each.name.startswith("test_"):
        print("test.test_asyncio." + each.name)')
}
