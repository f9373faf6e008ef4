#!/bin/bash
# Outside programs and suites, natively and under `m3 sock run`: the results must be equal, and
# bytes must go through rings.
#
#   tests/sockets/suites.sh [NAME...]        the last line is: N passed, N failed
#
# A suite whose package is absent is named and left out. Debian packages: libpython3.11-testsuite,
# redis-server, redis-tools, nginx, curl, openssh-server, openssh-client, rsync, git, nodejs,
# postgresql. Both ends of Python's suites are one process: the test switch `same-process` upgrades
# them.
set -u
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
built=${CARGO_TARGET_DIR:-$root/target}/${PROFILE:-release}
passed=0
failed=0
wanted=${*:-python redis nginx ssh rsync git node postgresql}

work=$(mktemp -d "${TMPDIR:-/tmp}/m3-suites.XXXXXX") || exit 3
chmod 755 "$work"
started=
trap 'for pid in $started; do kill "$pid" 2>/dev/null; done; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
M3_RUNTIME_DIR=$work/run
export M3_RUNTIME_DIR
mkdir -m 700 "$work/run"
for file in m3 libm3sock.so; do
    if [ ! -f "$built/$file" ]; then
        echo "error: there is no $built/$file; run cargo build --release first" >&2
        exit 3
    fi
done
printf 'upgrade-after = 0\n[test]\nsame-process = true\n' >"$work/policy"

# Runs a command natively or under the library.
as() {
    mode=$1
    shift
    if [ "$mode" = shared ]; then
        exec $drop "$built/m3" sock run --no-defaults --policy "$work/policy" \
            --counters "$counters.$BASHPID" -- "$@"
    fi
    exec $drop "$@"
}

# All bytes through rings: each program that `as` started has counters of its own.
ring_bytes() {
    sum=0
    for file in "$counters".*; do
        [ -s "$file" ] && sum=$((sum + $(od -An -t u8 -j 520 -N 8 "$file")))
    done
    echo $sum
}

has() {
    for need in "$@"; do
        command -v "$need" >/dev/null || {
            echo "left out: $name: $need is not installed"
            return 1
        }
    done
}

# Compares two files of results. `$3` is the least number of bytes through rings.
judge() {
    ring=$(ring_bytes)
    if ! cmp -s "$work/native" "$work/shared"; then
        failed=$((failed + 1))
        echo "FAIL $1: < native, > under m3 sock run"
        diff "$work/native" "$work/shared" | head -20
        head -5 "$work/error.shared"
    elif [ ! -s "$work/native" ]; then
        failed=$((failed + 1))
        echo "FAIL $1: no result"
    elif [ "$ring" -lt "$2" ]; then
        failed=$((failed + 1))
        echo "FAIL $1: $ring bytes through rings"
    else
        passed=$((passed + 1))
        echo "ok $1: $(tail -1 "$work/native" | cut -c1-60), $ring bytes through rings"
    fi
}

# `suite NAME LEAST FUNCTION`: the function writes its results for a mode.
both() {
    drop=
    counters=$work/counters
    rm -rf "$counters".* "$M3_RUNTIME_DIR"/*
    "$3" native >"$work/native" 2>"$work/error.native"
    "$3" shared >"$work/shared" 2>"$work/error.shared"
    judge "$1" "$2"
}

until_open() {
    for try in $(seq 100); do
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
        sleep 0.1
    done
}

python_test() {
    (as "$1" timeout 900 python3 -W ignore -m unittest -v "test.$module") 2>&1 |
        grep -E ' \.\.\. (ok|FAIL|ERROR|skipped)|^(OK|FAILED)|^Ran' |
        sed -e 's/ in [0-9.]*s$//' -e 's/0x[0-9a-f]*//g'
}

python_suites() {
    python3 -c 'import test.test_socket' 2>/dev/null || {
        echo "left out: python: libpython3.11-testsuite is not installed"
        return
    }
    for module in test_select test_poll test_epoll test_selectors test_socket test_ssl \
        test_asyncio.test_streams test_asyncio.test_sock_lowlevel test_asyncio.test_events; do
        least=1
        case $module in test_select | test_poll | test_epoll | test_selectors) least=0 ;; esac
        both "python $module" $least python_test
    done
}

redis_run() {
    script='for i=1,3000 do redis.call("set", "k" .. i, string.rep("x", i)) end'
    script="$script return redis.sha1hex(redis.call('get', 'k2999'))"
    (as "$1" redis-server --port 7391 --save '' --appendonly no --dir "$work") >/dev/null 2>&1 &
    pid=$!
    started="$started $pid"
    until_open 7391
    (as "$1" redis-benchmark -p 7391 -q -n 2000 -c 20 -P 4 -t set,get,lpush,lrange_100) \
        >/dev/null 2>&1
    for i in 1 2 3; do
        (as "$1" redis-cli -p 7391 eval "$script" 0)
        (as "$1" redis-cli -p 7391 mget k1 k10 k100 | cksum)
        (yes 'INCR n' | head -1000 | as "$1" redis-cli -p 7391 | tail -1)
    done
    (as "$1" redis-cli -p 7391 dbsize)
    kill $pid
    wait $pid 2>/dev/null
}

nginx_run() {
    mkdir -p "$work/html"
    [ -f "$work/html/large" ] || head -c 3000000 /dev/urandom >"$work/html/large"
    echo hello >"$work/html/index.html"
    chmod -R a+rX "$work/html"
    cat >"$work/nginx.conf" <<X
user root; worker_processes 2; pid $work/nginx.pid; error_log /dev/null;
events { worker_connections 256; }
http { access_log off; client_body_temp_path $work/t1; proxy_temp_path $work/t2;
fastcgi_temp_path $work/t3; uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;
server { listen 127.0.0.1:7392; root $work/html; } }
X
    (as "$1" nginx -p "$work" -c "$work/nginx.conf" -g 'daemon off;') >/dev/null 2>&1 &
    pid=$!
    started="$started $pid"
    until_open 7392
    for i in 1 2 3 4 5; do
        (as "$1" curl -s http://127.0.0.1:7392/ http://127.0.0.1:7392/large \
            http://127.0.0.1:7392/none http://127.0.0.1:7392/large) | cksum
    done
    kill $pid
    wait $pid 2>/dev/null
}

ssh_run() {
    mkdir -p "$work/ssh" /run/sshd
    chmod 700 "$work/ssh"
    [ -f "$work/ssh/key" ] || ssh-keygen -q -t ed25519 -N '' -f "$work/ssh/key"
    [ -f "$work/ssh/host" ] || ssh-keygen -q -t ed25519 -N '' -f "$work/ssh/host"
    cp "$work/ssh/key.pub" "$work/ssh/authorized"
    [ -f "$work/ssh/data" ] || head -c 2000000 /dev/urandom >"$work/ssh/data"
    (as "$1" "$(command -v sshd)" -D -e -f /dev/null -p 7393 -o "HostKey=$work/ssh/host" \
        -o "AuthorizedKeysFile=$work/ssh/authorized" -o StrictModes=no -o UsePAM=no \
        -o PidFile=none -o ListenAddress=127.0.0.1 -o "Subsystem=sftp internal-sftp" \
        -o PermitRootLogin=yes) >/dev/null 2>&1 &
    pid=$!
    started="$started $pid"
    until_open 7393
    with="-F /dev/null -i $work/ssh/key -o StrictHostKeyChecking=no
        -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes"
    (as "$1" ssh $with -p 7393 127.0.0.1 'echo logged in; cat; echo end' <"$work/ssh/data") | cksum
    (as "$1" ssh $with -p 7393 127.0.0.1 'exit 7')
    echo "code $?"
    rm -f "$work/ssh/copy"
    (as "$1" scp -q $with -P 7393 "$work/ssh/data" "127.0.0.1:$work/ssh/copy")
    cksum <"$work/ssh/copy"
    rm -f "$work/ssh/copy"
    (echo "get $work/ssh/data $work/ssh/copy" | as "$1" sftp -q $with -P 7393 -b - 127.0.0.1) \
        >/dev/null
    cksum <"$work/ssh/copy"
    kill $pid
    wait $pid 2>/dev/null
}

rsync_run() {
    mkdir -p "$work/tree" "$work/to"
    [ -f "$work/tree/9" ] ||
        for i in 1 2 3 4 5 6 7 8 9; do head -c ${i}00000 /dev/urandom >"$work/tree/$i"; done
    printf 'use chroot = no\n[tree]\npath = %s\nuid = 0\ngid = 0\n' "$work/tree" >"$work/rsyncd"
    (as "$1" rsync --daemon --no-detach --config "$work/rsyncd" --port 7394 --address 127.0.0.1) \
        >/dev/null 2>&1 &
    pid=$!
    started="$started $pid"
    until_open 7394
    rm -rf "$work/to"
    (as "$1" rsync -a rsync://127.0.0.1:7394/tree/ "$work/to/")
    echo "code $?"
    cat "$work"/to/* | cksum
    kill $pid
    wait $pid 2>/dev/null
}

git_run() {
    rm -rf "$work/clone"
    if [ ! -d "$work/repo.git" ]; then
        git init -q "$work/source"
        for i in 1 2 3 4 5 6 7 8 9; do
            head -c ${i}0000 /dev/urandom >"$work/source/$i"
            git -C "$work/source" add . && git -C "$work/source" -c user.name=t -c user.email=t@t \
                commit -qm "$i"
        done
        git clone -q --bare "$work/source" "$work/repo.git"
        touch "$work/repo.git/git-daemon-export-ok"
    fi
    (as "$1" git daemon --reuseaddr --listen=127.0.0.1 --port=7395 --base-path="$work" \
        "$work/repo.git") >/dev/null 2>&1 &
    pid=$!
    started="$started $pid"
    until_open 7395
    (as "$1" git clone -q git://127.0.0.1:7395/repo.git "$work/clone")
    echo "code $?"
    git -C "$work/clone" rev-parse HEAD
    git -C "$work/clone" fsck 2>&1 | tail -1
    pkill -P $pid 2>/dev/null
    kill $pid
    wait $pid 2>/dev/null
}

node_run() {
    cat >"$work/test.js" <<'X'
const net = require('net'), { spawn } = require('child_process');
const child = spawn('/bin/sh', ['-c', 'cat; echo err >&2; exit 3']);
let out = '', err = '';
child.stdout.on('data', d => out += d); child.stderr.on('data', d => err += d);
for (let i = 0; i < 200; i++) child.stdin.write('line ' + i + '\n');
child.stdin.end();
child.on('close', code => {
  console.log('child', code, out.length, err.trim());
  const server = net.createServer(s => s.pipe(s)).listen(0, '127.0.0.1', () => {
    const c = net.connect(server.address().port); let got = 0, sent = 0;
    const more = () => {
      if (sent < 300) { sent++; c.write(Buffer.alloc(1000, sent)); } else c.end();
    };
    c.on('data', d => { got += d.length; if (got >= sent * 1000) more(); });
    c.on('close', () => { console.log('echo', got); server.close(); }); more();
  });
});
X
    (as "$1" node "$work/test.js")
    echo "code $?"
}

postgresql_run() {
    bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
    rm -rf "$work/pg"
    mkdir "$work/pg"
    mkdir -p "$work/pgrun"
    chmod 700 "$work/pgrun"
    counters=$work/pgrun/counters
    # The server does not run as root.
    if [ "$(id -u)" -eq 0 ]; then
        drop="setpriv --reuid postgres --regid postgres --clear-groups"
        chown postgres "$work/pg" "$work/pgrun"
    fi
    $drop "$bin/initdb" -D "$work/pg/data" -A trust >/dev/null 2>&1
    export M3_RUNTIME_DIR=$work/pgrun
    (as "$1" "$bin/postgres" -D "$work/pg/data" -p 7396 -k "$work/pg" \
        -c listen_addresses=127.0.0.1 -c fsync=off) >/dev/null 2>&1 &
    pid=$!
    started="$started $pid"
    until_open 7396
    for way in "$work/pg" 127.0.0.1; do
        (as "$1" "$bin/pgbench" -i -q -h "$way" -p 7396 postgres) >/dev/null 2>&1
        (as "$1" "$bin/pgbench" -h "$way" -p 7396 -n -c 4 -t 100 postgres) 2>/dev/null |
            grep 'actually processed'
        (as "$1" "$bin/psql" -h "$way" -p 7396 -At -c \
            'select md5(string_agg(i::text, $$,$$)) from generate_series(1, 100000) i' postgres)
    done
    kill -INT $pid
    wait $pid 2>/dev/null
    export M3_RUNTIME_DIR=$work/run
}

for name in $wanted; do
    case $name in
    python) python_suites ;;
    redis) has redis-server redis-benchmark redis-cli && both redis 1 redis_run ;;
    nginx) has nginx curl && both nginx 1 nginx_run ;;
    ssh) has sshd ssh scp sftp && both ssh 0 ssh_run ;;
    rsync) has rsync && both rsync 1 rsync_run ;;
    git) has git && both git 0 git_run ;;
    node) has node && both node 0 node_run ;;
    postgresql)
        if ls -d /usr/lib/postgresql/*/bin >/dev/null 2>&1; then
            both postgresql 1 postgresql_run
        else
            echo "left out: postgresql is not installed"
        fi
        ;;
    *) echo "there is no suite $name" >&2; exit 2 ;;
    esac
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
