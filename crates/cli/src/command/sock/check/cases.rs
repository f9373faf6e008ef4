//! The programs that `m3 sock check` compares.

use super::case::CommandLine::{Script, Words};
use super::case::{Case, CommandLine, DEFAULT, Readiness};
use super::measurement;

const REDIS: CommandLine = Words(
    "redis-server --port {port} --unixsocket {dir}/socket --save '' --appendonly no --dir {dir}",
);
const REDIS_PACKAGES: &str = "redis-server, redis-tools";

/// The head of each nginx configuration: all files in the directory of the run.
macro_rules! nginx_conf {
    ($workers:literal, $server:literal) => {
        concat!(
            "user root root; worker_processes ",
            $workers,
            "; daemon off; pid {dir}/pid; error_log {dir}/errors;\n",
            "events { worker_connections 512; }\n",
            "http { access_log off; keepalive_requests 1000000;\n",
            "client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy;\n",
            "fastcgi_temp_path {dir}/fastcgi; uwsgi_temp_path {dir}/uwsgi;\n",
            "scgi_temp_path {dir}/scgi;\n",
            "server { ",
            $server,
            " root {dir}; } }\n"
        )
    };
}

const NGINX_CONF: &str = nginx_conf!("2", "listen 127.0.0.1:{port2}; listen 127.0.0.1:{port};");
const BACKEND_CONF: &str = nginx_conf!("1", "listen 127.0.0.1:{port2};");
const NGINX: CommandLine = Words("nginx -c {dir}/nginx.conf -e {dir}/errors -p {dir}");
const PAGE: (&str, &str) = ("index.html", "a page of a few bytes, as many servers send it\n");
const WRK: CommandLine =
    Words("wrk -t1 -c10 -d{seconds}s --latency http://127.0.0.1:{port}/index.html");
/// A connection for each request. wrk leaves out a header without a space behind its colon.
const WRK_CLOSE: CommandLine = Script(
    "exec wrk -t1 -c10 -d{seconds}s --latency -H 'Connection: close' \
     http://127.0.0.1:{port}/index.html",
);

const POSTGRES: CommandLine =
    Words("postgres -D {dir}/data -p {port} -k {dir} -c fsync=off -c listen_addresses=127.0.0.1");
const POSTGRES_SETUP: CommandLine = Words("initdb -D {dir}/data -A trust -U bench -N");

/// Creates the tables natively, then measures so many clients.
macro_rules! pgbench {
    ($clients:literal) => {
        concat!(
            "LD_PRELOAD= pgbench -q -i -h 127.0.0.1 -p {port} -U bench postgres >&2 && ",
            "exec pgbench -S -n -c ",
            $clients,
            " -T {seconds} -h 127.0.0.1 -p {port} -U bench postgres"
        )
    };
}

const HAPROXY_CONF: &str = "defaults
 mode http
 timeout connect 5s
 timeout client 30s
 timeout server 30s
frontend f
 bind 127.0.0.1:{port}
 default_backend b
backend b
 server s 127.0.0.1:{port2}
";

const RSYNC_CONF: &str = "pid file = {dir}/pid
use chroot = no
[files]
path = {dir}/from
read only = yes
";

/// Creates a file of 32 MB.
const BIG_FILE: CommandLine = Script("head -c 33554432 /dev/urandom > {dir}/big");
/// Fetches the file four times, compares the last copy, and prints the bytes per second.
const FETCH: CommandLine = Script(
    "from=$(date +%s%N) && for n in 1 2 3 4; do \
     curl -sS --max-time 60 -o {dir}/got http://127.0.0.1:{port}/big || exit 1; done && \
     to=$(date +%s%N) && cmp {dir}/big {dir}/got && echo same && \
     echo rate $((4 * 33554432 * 1000 / ((to - from) / 1000000 + 1)))",
);

/// All cases.
pub const CASES: &[Case] = &[
    Case {
        name: "redis -c 1",
        package: REDIS_PACKAGES,
        servers: &[REDIS],
        client: Words("redis-benchmark -p {port} -t set,get -c 1 -n {seconds}0000 --csv"),
        read: measurement::redis,
        ..DEFAULT
    },
    Case {
        name: "redis -c 50",
        package: REDIS_PACKAGES,
        servers: &[REDIS],
        client: Words("redis-benchmark -p {port} -t set,get -c 50 -n {seconds}0000 --csv"),
        read: measurement::redis,
        ..DEFAULT
    },
    Case {
        name: "redis -c 50 -P 16",
        package: REDIS_PACKAGES,
        servers: &[REDIS],
        client: Words("redis-benchmark -p {port} -t set,get -c 50 -P 16 -n {seconds}00000 --csv"),
        read: measurement::redis,
        ..DEFAULT
    },
    Case {
        name: "redis unix -c 1",
        package: REDIS_PACKAGES,
        servers: &[REDIS],
        client: Words("redis-benchmark -s {dir}/socket -t set,get -c 1 -n {seconds}0000 --csv"),
        read: measurement::redis,
        ..DEFAULT
    },
    Case {
        name: "nginx, wrk",
        package: "nginx-light, wrk",
        files: &[PAGE, ("nginx.conf", NGINX_CONF)],
        servers: &[NGINX],
        client: WRK,
        read: measurement::wrk,
        ..DEFAULT
    },
    Case {
        name: "nginx, wrk, Connection: close",
        package: "nginx-light, wrk",
        files: &[PAGE, ("nginx.conf", NGINX_CONF)],
        servers: &[NGINX],
        client: WRK_CLOSE,
        read: measurement::wrk,
        ..DEFAULT
    },
    Case {
        name: "haproxy, nginx, wrk",
        package: "haproxy, nginx-light, wrk",
        files: &[PAGE, ("nginx.conf", BACKEND_CONF), ("haproxy.cfg", HAPROXY_CONF)],
        servers: &[NGINX, Words("haproxy -db -f {dir}/haproxy.cfg")],
        client: WRK,
        read: measurement::wrk,
        ..DEFAULT
    },
    Case {
        name: "memcached, memcslap",
        package: "memcached, libmemcached-tools",
        unit: "runs",
        servers: &[Words("memcached -l 127.0.0.1 -p {port} -u nobody")],
        client: Words(
            "memcslap --servers=127.0.0.1:{port} --concurrency=4 --execute-number={seconds}0000 \
             --test=set",
        ),
        read: measurement::memcslap,
        ..DEFAULT
    },
    Case {
        name: "postgresql, pgbench -c 1",
        package: "postgresql",
        unit: "tx",
        setup: &[POSTGRES_SETUP],
        servers: &[POSTGRES],
        client: Script(pgbench!("1")),
        read: measurement::pgbench,
        refuses_root: true,
        ..DEFAULT
    },
    Case {
        name: "postgresql, pgbench -c 8",
        package: "postgresql",
        unit: "tx",
        setup: &[POSTGRES_SETUP],
        servers: &[POSTGRES],
        client: Script(pgbench!("8")),
        read: measurement::pgbench,
        refuses_root: true,
        ..DEFAULT
    },
    Case {
        name: "iperf3",
        package: "iperf3",
        unit: "B",
        servers: &[Words("iperf3 -s -B 127.0.0.1 -p {port}")],
        readiness: Readiness::FixedDelay,
        client: Words("iperf3 -c 127.0.0.1 -p {port} -t {seconds} -J"),
        read: measurement::iperf3,
        ..DEFAULT
    },
    Case {
        name: "sockperf ping-pong",
        package: "sockperf",
        unit: "trips",
        servers: &[Words("sockperf server --tcp -i 127.0.0.1 -p {port}")],
        client: Words("sockperf ping-pong --tcp -i 127.0.0.1 -p {port} -t {seconds}"),
        read: measurement::sockperf,
        ..DEFAULT
    },
    Case {
        name: "netpipe",
        package: "netpipe-tcp",
        unit: "B",
        servers: &[Words("NPtcp -n 300 -u 1048576")],
        readiness: Readiness::FixedDelay,
        client: Words("NPtcp -h 127.0.0.1 -n 300 -u 1048576 -o {dir}/np.out"),
        read: measurement::netpipe,
        ..DEFAULT
    },
    Case {
        name: "nginx, curl",
        package: "nginx-light, curl",
        unit: "B",
        files: &[("nginx.conf", NGINX_CONF)],
        setup: &[BIG_FILE],
        servers: &[NGINX],
        client: FETCH,
        ..DEFAULT
    },
    Case {
        name: "python3 -m http.server, curl",
        package: "python3, curl",
        unit: "B",
        setup: &[BIG_FILE],
        servers: &[Words("python3 -m http.server --bind 127.0.0.1 -d {dir} {port}")],
        client: FETCH,
        ..DEFAULT
    },
    Case {
        name: "rsync",
        package: "rsync",
        unit: "B",
        files: &[("rsyncd.conf", RSYNC_CONF)],
        setup: &[Script(
            "mkdir {dir}/from {dir}/to && head -c 33554432 /dev/urandom > {dir}/from/big && \
             echo small > {dir}/from/small",
        )],
        servers: &[Words(
            "rsync --daemon --no-detach --port {port} --address 127.0.0.1 \
             --config {dir}/rsyncd.conf",
        )],
        client: Script(
            "from=$(date +%s%N) && for n in 1 2 3; do rm -rf {dir}/to; mkdir {dir}/to && \
             rsync -a rsync://127.0.0.1:{port}/files/ {dir}/to/ || exit 1; done && \
             to=$(date +%s%N) && diff -r {dir}/from {dir}/to && echo same && \
             echo rate $((3 * 33554432 * 1000 / ((to - from) / 1000000 + 1)))",
        ),
        ..DEFAULT
    },
    Case {
        name: "nginx, hey (Go)",
        package: "nginx-light, hey",
        files: &[PAGE, ("nginx.conf", NGINX_CONF)],
        servers: &[NGINX],
        client: Words("hey -z {seconds}s -c 10 http://127.0.0.1:{port}/index.html"),
        read: measurement::hey,
        ..DEFAULT
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_is_complete() {
        let places = ["127.0.0.1", "{dir}", "{port}"];
        for case in CASES {
            let has_names = !case.name.is_empty() && !case.package.is_empty();
            assert!(has_names && !case.servers.is_empty(), "{}", case.name);
            let words = case.client.words().concat();
            assert!(places.iter().any(|place| words.contains(place)), "{}", case.name);
            let all = case.setup.iter().chain(case.servers).chain([&case.client]);
            assert!(all.map(|command| command.words()).all(|words| !words[0].is_empty()));
        }
        assert!(REDIS.words().contains(&""), "an empty word is passed on");
    }
}
