#!/usr/bin/env python3
"""Rates of programs natively, natively once more, and under `m3 sock run`, with servers that stay.

    tests/sockets/rates.py [--busy] [--rounds N] [--seconds S] [--library NAME=FILE]... CASE...

Each mode has servers of its own, which start once. A round runs the client of each mode for S
seconds, in an order that turns. A line of a mode has the ratio of the medians to the first native
mode, the least and the greatest ratio of a round, the ratio of the CPU time for each request, and
the bytes through rings. The line `native` is the noise of the case: where it is far from 1, the
other lines mean nothing.

`--library` compares files of libm3sock.so. Needs `cargo build --release`, and the programs of the
case. `--busy` adds a busy loop for each CPU.
"""
import argparse
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILT = os.path.join(
    os.environ.get("CARGO_TARGET_DIR", os.path.join(HERE, "../../target")),
    os.environ.get("PROFILE", "release"),
)
NGINX = """user root root; worker_processes %d; daemon off; pid {dir}/pid; error_log {dir}/errors;
events { worker_connections 512; }
http { access_log off; keepalive_requests 100000000;
client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
server { listen 127.0.0.1:%s; root {dir}; } }
"""
HAPROXY = """global
 nbthread 2
defaults
 mode http
 timeout connect 5s
 timeout client 30s
 timeout server 30s
frontend f
 bind 127.0.0.1:{port}
 default_backend b
backend b
 server s 127.0.0.1:{port2}
"""
WRK = "wrk -t1 -c10 -d{whole} %s http://127.0.0.1:{port}/index.html"
REDIS = "redis-server --port {port} --save '' --appendonly no --dir {dir}"
REDIS_RATE = r"([0-9.]+) requests per second"
WRK_RATE = r"Requests/sec:\s+([0-9.]+)"
NGINX_START = "nginx -c {dir}/nginx.conf -e {dir}/errors -p {dir}"
FETCH = (
    "for n in $(seq {count}); do curl -sS --max-time 60 -o /dev/null "
    "http://127.0.0.1:{port}/big || exit 1; done"
)
PGBENCH = "pgbench -S -n -c %d -T {whole} -h 127.0.0.1 -p {port} -U bench postgres"
POSTGRES = "postgres -D {dir}/data -p {port} -k {dir} -c fsync=off -c listen_addresses=127.0.0.1"
# Name: servers, client, expression of the rate (None: requests of a fixed count by time).
CASES = {
    "redis-1": ([REDIS], "redis-benchmark -p {port} -t get -c 1 -n {n1}", REDIS_RATE),
    "redis-50": ([REDIS], "redis-benchmark -p {port} -t get -c 50 -n {n50}", REDIS_RATE),
    "nginx": ([NGINX_START], WRK % "", WRK_RATE),
    "close": ([NGINX_START], WRK % "-H 'Connection: close'", WRK_RATE),
    "haproxy": ([NGINX_START, "haproxy -db -f {dir}/haproxy.cfg"], WRK % "", WRK_RATE),
    "memcached": (
        ["memcached -l 127.0.0.1 -p {port} -u nobody"],
        "memcslap --servers=127.0.0.1:{port} --concurrency=4 --execute-number={n4} --test=set",
        None,
    ),
    "pgbench-1": ([POSTGRES], PGBENCH % 1, r"tps = ([0-9.]+)"),
    "pgbench-8": ([POSTGRES], PGBENCH % 8, r"tps = ([0-9.]+)"),
    "iperf3": (
        ["iperf3 -s -B 127.0.0.1 -p {port}"],
        "iperf3 -c 127.0.0.1 -p {port} -t {whole} -f m",
        r"([0-9.]+) Mbits/sec\s+receiver",
    ),
    "curl": ([NGINX_START], FETCH, None),
}
TICK = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def user_of(case):
    return 65534 if case.startswith("pgbench") and os.geteuid() == 0 else None


class Mode:
    """Servers of a mode, and runs of its client."""

    def __init__(self, name, case, library, seconds):
        self.name, self.case, self.library = name, case, library
        self.rates, self.cpu = [], []
        self.dir = tempfile.mkdtemp(prefix="m3-rates-")
        self.user = user_of(case)
        if self.user:
            os.chown(self.dir, self.user, self.user)
        self.values = {
            "dir": self.dir, "port": free_port(), "port2": free_port(),
            "whole": max(1, round(seconds)), "n1": int(12000 * seconds), "n4": int(8000 * seconds),
            "n50": int(50000 * seconds), "count": max(1, int(12 * seconds)),
        }
        self.count = 0
        self.write_files()
        servers, self.client, self.expression = CASES[case]
        if case.startswith("pgbench"):
            self.run(self.start("initdb -D {dir}/data -A trust -U bench -N", False))
        self.servers = [self.start(line, True) for line in servers]
        self.await_server()
        if case.startswith("pgbench"):
            init = "pgbench -q -i -h 127.0.0.1 -p {port} -U bench postgres"
            self.run(self.start(init, False))

    def fill(self, text):
        return re.sub(r"\{(\w+)\}", lambda found: str(self.values[found[1]]), text)

    def write_files(self):
        port = "{port2}" if self.case == "haproxy" else "{port}"
        workers = 1 if self.case == "haproxy" else 2
        files = {
            "nginx.conf": NGINX % (workers, port), "haproxy.cfg": HAPROXY,
            "index.html": "a page of a few bytes, as many servers send it\n",
        }
        for name, text in files.items():
            with open(os.path.join(self.dir, name), "w", encoding="utf-8") as file:
                file.write(self.fill(text))
        if self.case == "curl":
            with open(os.path.join(self.dir, "big"), "wb") as file:
                file.write(os.urandom(1 << 20) * 32)

    def start(self, line, shared):
        words = ["sh", "-c", "exec " + self.fill(line) if "for " not in line else self.fill(line)]
        environment = dict(os.environ)
        if shared and self.library:
            environment["M3_SOCK_LIBRARY"] = self.library
            environment["M3_RUNTIME_DIR"] = self.dir
            self.count += 1
            counters = f"{self.dir}/{self.count}.counters"
            words = [f"{BUILT}/m3", "sock", "run", "--counters", counters, "--", *words]
        return subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.dir, user=self.user,
            env=environment, start_new_session=True, text=True, stdin=subprocess.DEVNULL,
        )

    @staticmethod
    def run(process):
        text = process.communicate()[0]
        if process.returncode != 0:
            sys.exit(f"error: {process.args} ended with {process.returncode}: {text[-400:]}")
        return text

    def await_server(self):
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", self.values["port"])).close()
                time.sleep(0.3)
                return
            except OSError:
                time.sleep(0.05)
        sys.exit(f"error: the server of {self.case} does not listen")

    def server_cpu(self):
        """CPU time of the sessions of the servers, in seconds."""
        sessions = {str(server.pid) for server in self.servers}
        ticks = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if fields[3] in sessions:
                ticks += sum(int(field) for field in fields[11:15])
        return ticks / TICK

    def round(self):
        before, own = self.server_cpu(), os.times()
        start = time.monotonic()
        text = self.run(self.start(self.client, True))
        took, after = time.monotonic() - start, os.times()
        rate = 1 / took
        if self.expression:
            found = re.findall(self.expression, text.replace("\r", "\n"))
            if not found:
                sys.exit(f"error: no rate: {text[-400:]}")
            rate = float(found[-1])
        cpu = self.server_cpu() - before + after[2] + after[3] - own[2] - own[3]
        self.rates.append(rate)
        self.cpu.append(cpu / took / rate)

    def ring_bytes(self):
        total = 0
        for name in os.listdir(self.dir):
            if name.endswith(".counters"):
                with open(os.path.join(self.dir, name), "rb") as file:
                    page = file.read()
                words = struct.unpack(f"<{len(page) // 8}Q", page)
                total += words[65] + sum(words[112:352:16])
        return total

    def end(self):
        for server in self.servers:
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(server.pid, number)
                except ProcessLookupError:
                    break
                try:
                    server.wait(2)
                    break
                except subprocess.TimeoutExpired:
                    pass
        shutil.rmtree(self.dir, ignore_errors=True)


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def measure(case, options, libraries):
    names = [("native", None), ("native again", None), *libraries]
    modes, loops = [], []
    try:
        modes.extend(Mode(name, case, library, options.seconds) for name, library in names)
        if options.busy:
            for cpu in os.sched_getaffinity(0):
                code = f"import os\nos.sched_setaffinity(0, [{cpu}])\nwhile 1: 0"
                loops.append(subprocess.Popen([sys.executable, "-c", code]))
        for turn in range(options.rounds):
            for at in range(len(modes)):
                modes[(at + turn) % len(modes)].round()
        native = modes[0]
        for mode in modes:
            ratios = [rate / base for rate, base in zip(mode.rates, native.rates)]
            rate = median(mode.rates) / median(native.rates)
            cpu = median(mode.cpu) / median(native.cpu)
            print(
                f"{case:10} {'busy' if options.busy else 'idle'} {mode.name:14} {rate:5.2f} "
                f"({min(ratios):.2f} to {max(ratios):.2f}) median of rounds {median(ratios):5.2f} "
                f"CPU {cpu:5.2f} rate {median(mode.rates):10.2f} rings {mode.ring_bytes()}",
                flush=True,
            )
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
        for mode in modes:
            mode.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--library", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("cases", nargs="+", choices=CASES, metavar="CASE")
    options = parser.parse_args()
    # The servers end with the script.
    signal.signal(signal.SIGTERM, lambda *_ignored: sys.exit(143))
    libraries = [tuple(one.split("=", 1)) for one in options.library]
    libraries = libraries or [("m3 sock run", os.path.join(BUILT, "libm3sock.so"))]
    for postgres in ("/usr/lib/postgresql/15/bin", "/usr/lib/postgresql/17/bin"):
        os.environ["PATH"] += ":" + postgres
    for case in options.cases:
        measure(case, options, libraries)


main()
