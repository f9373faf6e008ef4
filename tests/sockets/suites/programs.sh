# Programs and their clients: part of suites.sh. Each function runs one mode and writes results.

has() {
    for need in "$@"; do
        command -v "$need" >/dev/null || {
            echo "left out: $name: $need is not installed"
            return 1
        }
    done
}

until_open() {
    for try in $(seq 100); do
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
        sleep 0.1
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

# Starts nginx at 7392 in a mode; `nginx` is its process.
nginx_start() {
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
    nginx=$!
    started="$started $nginx"
    until_open 7392
}

# Sums of pages from a port: `fetch MODE PORT`.
fetch() {
    for i in 1 2 3 4 5; do
        (as "$1" curl -s "http://127.0.0.1:$2/" "http://127.0.0.1:$2/large" \
            "http://127.0.0.1:$2/none" "http://127.0.0.1:$2/large") | cksum
    done
}

nginx_run() {
    nginx_start "$1"
    fetch "$1" 7392
    kill $nginx
    wait $nginx 2>/dev/null
}

haproxy_run() {
    nginx_start "$1"
    cat >"$work/haproxy.cfg" <<X
defaults
 mode http
 timeout connect 5s
 timeout client 30s
 timeout server 30s
frontend f
 bind 127.0.0.1:7397
 default_backend b
backend b
 server s 127.0.0.1:7392
X
    (as "$1" haproxy -db -f "$work/haproxy.cfg") >/dev/null 2>&1 &
    pid=$!
    started="$started $pid"
    until_open 7397
    fetch "$1" 7397
    kill $pid $nginx
    wait $pid $nginx 2>/dev/null
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
