//! The programs, and how they are started. `{dir}` is a folder of the run's own, `{port}` and `{port2}` are free ports,
//! `{seconds}` is how long a client runs.

use super::figure::{self, Figure};
use crate::sock::target;
use std::ffi::OsStr;

/// When a server can be talked to.
#[derive(Clone, Copy, Debug)]
pub enum Ready {
    /// When its port accepts.
    Port,
    /// Soon: it accepts one connection, which must be the client's.
    Soon,
}

/// A pair of programs.
#[derive(Debug)]
pub struct Case {
    pub name: &'static str,
    /// The packages of Debian that bring them.
    pub package: &'static str,
    pub unit: &'static str,
    /// Files of the folder, before anything starts.
    pub files: &'static [(&'static str, &'static str)],
    /// What runs first, to its end, natively.
    pub first: &'static [&'static [&'static str]],
    pub servers: &'static [&'static [&'static str]],
    pub ready: Ready,
    pub client: &'static [&'static str],
    pub read: fn(&str) -> Option<Figure>,
    /// It refuses to run as root.
    pub no_root: bool,
}

impl Case {
    /// Names of the programs that are compared.
    pub fn programs(&self) -> impl Iterator<Item = &'static str> {
        self.servers.iter().chain([&self.client]).filter_map(|words| words.first().copied())
    }

    /// Its programs that are not installed.
    pub fn missing(&self) -> Vec<&'static str> {
        let all = self.first.iter().chain(self.servers).chain([&self.client]);
        let mut missing: Vec<&str> = all
            .filter_map(|words| words.first().copied())
            .filter(|program| target::find(OsStr::new(program)).is_err())
            .collect();
        missing.dedup();
        missing
    }
}

const PLAIN: Case = Case {
    name: "",
    package: "",
    unit: "req",
    files: &[],
    first: &[],
    servers: &[],
    ready: Ready::Port,
    client: &[],
    read: figure::same,
    no_root: false,
};

const REDIS: &[&str] = &[
    "redis-server",
    "--port",
    "{port}",
    "--unixsocket",
    "{dir}/socket",
    "--save",
    "",
    "--appendonly",
    "no",
    "--dir",
    "{dir}",
];

const NGINX_CONF: &str = "user root root; worker_processes 2; daemon off; pid {dir}/pid; error_log {dir}/errors;
events { worker_connections 512; }
http { access_log off; keepalive_requests 1000000; client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy;
fastcgi_temp_path {dir}/fastcgi; uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
server { listen 127.0.0.1:{port2}; listen 127.0.0.1:{port}; root {dir}; } }
";
const BEHIND_CONF: &str = "user root root; worker_processes 1; daemon off; pid {dir}/pid; error_log {dir}/errors;
events { worker_connections 512; }
http { access_log off; keepalive_requests 1000000; client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy;
fastcgi_temp_path {dir}/fastcgi; uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
server { listen 127.0.0.1:{port2}; root {dir}; } }
";
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
const PAGE: (&str, &str) = ("index.html", "a page of a few bytes, as many servers send it\n");
const NGINX: &[&str] = &["nginx", "-c", "{dir}/nginx.conf", "-e", "{dir}/errors", "-p", "{dir}"];
/// Fetches 32 MB several times, compares, and says how many bytes came in a second.
const FETCH: &str = "from=$(date +%s%N) && for n in 1 2 3 4; do \
    curl -sS --max-time 60 -o {dir}/got http://127.0.0.1:{port}/big || exit 1; done && to=$(date +%s%N) && \
    cmp {dir}/big {dir}/got && echo same && echo rate $((4 * 33554432 * 1000 / ((to - from) / 1000000 + 1)))";
const BIG: &[&[&str]] = &[&["sh", "-c", "head -c 33554432 /dev/urandom > {dir}/big"]];

/// All of them.
pub const CASES: &[Case] = &[
    Case {
        name: "redis -c 1",
        package: "redis-server, redis-tools",
        servers: &[REDIS],
        client: &[
            "redis-benchmark",
            "-p",
            "{port}",
            "-t",
            "set,get",
            "-c",
            "1",
            "-n",
            "{seconds}0000",
            "--csv",
        ],
        read: figure::redis,
        ..PLAIN
    },
    Case {
        name: "redis -c 50",
        package: "redis-server, redis-tools",
        servers: &[REDIS],
        client: &[
            "redis-benchmark",
            "-p",
            "{port}",
            "-t",
            "set,get",
            "-c",
            "50",
            "-n",
            "{seconds}0000",
            "--csv",
        ],
        read: figure::redis,
        ..PLAIN
    },
    Case {
        name: "redis -c 50 -P 16",
        package: "redis-server, redis-tools",
        servers: &[REDIS],
        client: &[
            "redis-benchmark",
            "-p",
            "{port}",
            "-t",
            "set,get",
            "-c",
            "50",
            "-P",
            "16",
            "-n",
            "{seconds}00000",
            "--csv",
        ],
        read: figure::redis,
        ..PLAIN
    },
    Case {
        name: "redis unix -c 1",
        package: "redis-server, redis-tools",
        servers: &[REDIS],
        client: &[
            "redis-benchmark",
            "-s",
            "{dir}/socket",
            "-t",
            "set,get",
            "-c",
            "1",
            "-n",
            "{seconds}0000",
            "--csv",
        ],
        read: figure::redis,
        ..PLAIN
    },
    Case {
        name: "nginx, wrk",
        package: "nginx-light, wrk",
        files: &[PAGE, ("nginx.conf", NGINX_CONF)],
        servers: &[NGINX],
        client: &[
            "wrk",
            "-t1",
            "-c10",
            "-d{seconds}s",
            "--latency",
            "http://127.0.0.1:{port}/index.html",
        ],
        read: figure::wrk,
        ..PLAIN
    },
    Case {
        name: "haproxy, nginx, wrk",
        package: "haproxy, nginx-light, wrk",
        files: &[PAGE, ("nginx.conf", BEHIND_CONF), ("haproxy.cfg", HAPROXY_CONF)],
        servers: &[NGINX, &["haproxy", "-db", "-f", "{dir}/haproxy.cfg"]],
        client: &[
            "wrk",
            "-t1",
            "-c10",
            "-d{seconds}s",
            "--latency",
            "http://127.0.0.1:{port}/index.html",
        ],
        read: figure::wrk,
        ..PLAIN
    },
    Case {
        name: "memcached, memcslap",
        package: "memcached, libmemcached-tools",
        unit: "runs",
        servers: &[&["memcached", "-l", "127.0.0.1", "-p", "{port}", "-u", "nobody"]],
        client: &[
            "memcslap",
            "--servers=127.0.0.1:{port}",
            "--concurrency=4",
            "--execute-number={seconds}0000",
            "--test=set",
        ],
        read: figure::memcslap,
        ..PLAIN
    },
    Case {
        name: "postgresql, pgbench",
        package: "postgresql",
        unit: "tx",
        first: &[&["initdb", "-D", "{dir}/data", "-A", "trust", "-U", "bench", "-N"]],
        servers: &[&[
            "postgres",
            "-D",
            "{dir}/data",
            "-p",
            "{port}",
            "-k",
            "{dir}",
            "-c",
            "fsync=off",
            "-c",
            "listen_addresses=127.0.0.1",
        ]],
        client: &[
            "sh",
            "-c",
            "pgbench -q -i -h 127.0.0.1 -p {port} -U bench postgres >&2 && pgbench -S -c 4 -T {seconds} -h 127.0.0.1 -p {port} -U bench postgres",
        ],
        read: figure::pgbench,
        no_root: true,
        ..PLAIN
    },
    Case {
        name: "iperf3",
        package: "iperf3",
        unit: "B",
        servers: &[&["iperf3", "-s", "-B", "127.0.0.1", "-p", "{port}"]],
        ready: Ready::Soon,
        client: &["iperf3", "-c", "127.0.0.1", "-p", "{port}", "-t", "{seconds}", "-J"],
        read: figure::iperf3,
        ..PLAIN
    },
    Case {
        name: "sockperf ping-pong",
        package: "sockperf",
        unit: "trips",
        servers: &[&["sockperf", "server", "--tcp", "-i", "127.0.0.1", "-p", "{port}"]],
        client: &[
            "sockperf",
            "ping-pong",
            "--tcp",
            "-i",
            "127.0.0.1",
            "-p",
            "{port}",
            "-t",
            "{seconds}",
        ],
        read: figure::sockperf,
        ..PLAIN
    },
    Case {
        name: "netpipe",
        package: "netpipe-tcp",
        unit: "B",
        servers: &[&["NPtcp", "-n", "300", "-u", "1048576"]],
        ready: Ready::Soon,
        client: &["NPtcp", "-h", "127.0.0.1", "-n", "300", "-u", "1048576", "-o", "{dir}/np.out"],
        read: figure::netpipe,
        ..PLAIN
    },
    Case {
        name: "nginx, curl",
        unit: "B",
        package: "nginx-light, curl",
        files: &[("nginx.conf", NGINX_CONF)],
        first: BIG,
        servers: &[NGINX],
        client: &["sh", "-c", FETCH],
        ..PLAIN
    },
    Case {
        name: "python3 -m http.server, curl",
        unit: "B",
        package: "python3, curl",
        first: BIG,
        servers: &[&[
            "python3",
            "-m",
            "http.server",
            "--bind",
            "127.0.0.1",
            "-d",
            "{dir}",
            "{port}",
        ]],
        client: &["sh", "-c", FETCH],
        ..PLAIN
    },
    Case {
        name: "rsync",
        unit: "B",
        package: "rsync",
        files: &[("rsyncd.conf", RSYNC_CONF)],
        first: &[&[
            "sh",
            "-c",
            "mkdir {dir}/from {dir}/to && head -c 33554432 /dev/urandom > {dir}/from/big && echo small > {dir}/from/small",
        ]],
        servers: &[&[
            "rsync",
            "--daemon",
            "--no-detach",
            "--port",
            "{port}",
            "--address",
            "127.0.0.1",
            "--config",
            "{dir}/rsyncd.conf",
        ]],
        client: &[
            "sh",
            "-c",
            "from=$(date +%s%N) && for n in 1 2 3; do rm -rf {dir}/to; mkdir {dir}/to && \
             rsync -a rsync://127.0.0.1:{port}/files/ {dir}/to/ || exit 1; done && to=$(date +%s%N) && \
             diff -r {dir}/from {dir}/to && echo same && echo rate $((3 * 33554432 * 1000 / ((to - from) / 1000000 + 1)))",
        ],
        ..PLAIN
    },
    Case {
        name: "nginx, hey (Go)",
        package: "nginx-light, hey",
        files: &[PAGE, ("nginx.conf", NGINX_CONF)],
        servers: &[NGINX],
        client: &["hey", "-z", "{seconds}s", "-c", "10", "http://127.0.0.1:{port}/index.html"],
        read: figure::hey,
        ..PLAIN
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_is_whole() {
        for case in CASES {
            assert!(
                !case.name.is_empty() && !case.package.is_empty() && !case.servers.is_empty(),
                "{}",
                case.name
            );
            assert!(case.client.iter().any(|word| word.contains("127.0.0.1")
                || word.contains("{dir}")
                || word.contains("{port}")));
        }
    }
}
