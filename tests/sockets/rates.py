#!/usr/bin/env python3
"""Rates of programs natively, natively once more, and under `m3 sock run`, with servers that stay.

    tests/sockets/rates.py [--busy] [--pin] [--rounds N] [--seconds S] [--bound SHARE]
                           [--library NAME=FILE]... CASE...

Each mode has servers of its own, which start once. A round starts the client of each mode. Then the
modes take turns of 50 ms: all clients but one are stopped (SIGSTOP), until each had S
seconds. So the machine has the same speed for all of them. `--pin` keeps servers on the first CPU,
and clients on the others.

The base of a round is the mean of its two native counts. A line has the median of the rounds'
ratios to the base, the least and the greatest ratio, the ratio of the CPU time for each request,
and the bytes through rings. The line `native again` compares the second native count with the
first. Its `noise` says how far the median of such ratios may be from 1: it is the wider end of the
range that has 95 of 100 medians of resampled rounds. `others` is the share of the CPUs that other
programs and the host took. The verdict is `not judged here` where the noise is above the bound
(0.05). Else it is `holds` or, for a median ratio below 1 - bound, `slower`.

`--library` compares files of libm3sock.so. Needs `cargo build --release`, and the programs of the
case. `--busy` adds a busy loop for each CPU.
"""
import argparse
import json
import math
import os
import random
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
REDIS_CLIENT = "redis-benchmark -p {port} -n 1000000000 %s"
NGINX_START = "nginx -c {dir}/nginx.conf -e {dir}/errors -p {dir}"
FETCH = (
    "while :; do curl -sS --max-time 60 -o /dev/null http://127.0.0.1:{port}/big || exit 1; "
    "echo fetched; done"
)
PGBENCH = "pgbench -S -n -c %d -T {whole} -h 127.0.0.1 -p {port} -U bench postgres"
POSTGRES = "postgres -D {dir}/data -p {port} -k {dir} -c fsync=off -c listen_addresses=127.0.0.1"


def of_wrk(_mode, text):
    return int(re.search(r"(\d+) requests in", text)[1])


def of_pgbench(_mode, text):
    return int(re.search(r"actually processed: (\d+)", text)[1])


def of_iperf3(_mode, text):
    return json.loads(text)["end"]["sum_received"]["bytes"]


def of_curl(_mode, text):
    return text.count("fetched")


def asked(mode, question, expression):
    with socket.create_connection(("127.0.0.1", mode.values["port"])) as connection:
        connection.sendall(question)
        text = b""
        while not re.search(expression, text):
            text += connection.recv(65536)
        return int(re.search(expression, text)[1])


def of_redis(mode, _text):
    return asked(mode, b"INFO stats\r\n", rb"total_commands_processed:(\d+)\r")


def of_memcached(_mode, text):
    return int(re.search(r"Ops: (\d+)", text)[1])


# Name: servers, client, count of its requests.
CASES = {
    "redis-1": ([REDIS], REDIS_CLIENT % "-t get -c 1", of_redis),
    "redis-50": ([REDIS], REDIS_CLIENT % "-t get -c 50", of_redis),
    "redis-big": ([REDIS], REDIS_CLIENT % "-t set -d 65536 -c 4", of_redis),
    "nginx": ([NGINX_START], WRK % "", of_wrk),
    "close": ([NGINX_START], WRK % "-H 'Connection: close'", of_wrk),
    "haproxy": ([NGINX_START, "haproxy -db -f {dir}/haproxy.cfg"], WRK % "", of_wrk),
    "memcached": (
        ["memcached -l 127.0.0.1 -p {port} -u nobody"],
        "memcaslap -s 127.0.0.1:{port} -c 4 -T 1 -t {whole}s",
        of_memcached,
    ),
    "pgbench-1": ([POSTGRES], PGBENCH % 1, of_pgbench),
    "pgbench-8": ([POSTGRES], PGBENCH % 8, of_pgbench),
    "iperf3": (
        ["iperf3 -s -B 127.0.0.1 -p {port}"], "iperf3 -c 127.0.0.1 -p {port} -t {whole} -J",
        of_iperf3,
    ),
    "curl": ([NGINX_START], FETCH, of_curl),
}
# Counts of clients that have no end of their own.
ENDLESS = (of_redis, of_curl)
# Counts of the server, which go on from round to round.
GROWING = (of_redis,)
SLICE_S = 0.05
# Each client begins alone.
FIRST_S = 0.2
TICK = os.sysconf("SC_CLK_TCK")
# Resampled medians of the noise of a row.
SAMPLES = 2000


def free_port():
    """A port below those that the kernel gives to connections of other programs."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="utf-8") as file:
        limit = int(file.read().split()[0])
    candidates = [random.randrange(10_000, limit) for _ in range(1_000)] if limit > 10_000 else []
    for port in [*candidates, 0]:
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return one.getsockname()[1]
    sys.exit("error: no port is free")


def user_of(case):
    return 65534 if case.startswith("pgbench") and os.geteuid() == 0 else None


class Mode:
    """Servers of a mode, and runs of its client."""

    def __init__(self, name, case, library, options):
        self.name, self.case, self.library = name, case, library
        self.rates, self.cpu, self.running, self.used = [], [], None, 0
        cpus = sorted(os.sched_getaffinity(0))
        # The CPUs of the servers, and those of the clients.
        self.cpus = (cpus[:1], cpus[1:]) if options.pin and len(cpus) > 1 else (cpus, cpus)
        self.dir = tempfile.mkdtemp(prefix="m3-rates-")
        self.user = user_of(case)
        if self.user:
            os.chown(self.dir, self.user, self.user)
        self.values = {"dir": self.dir, "port": free_port(), "port2": free_port()}
        self.values["whole"] = options.whole
        self.count = 0
        self.write_files()
        servers, self.client, self.requests = CASES[case]
        if case.startswith("pgbench"):
            self.run(self.start("initdb -D {dir}/data -A trust -U bench -N", False, 0))
        self.servers = [self.start(line, True, 0) for line in servers]
        self.await_server()
        if case.startswith("pgbench"):
            init = "pgbench -q -i -h 127.0.0.1 -p {port} -U bench postgres"
            self.run(self.start(init, False, 1))

    def fill(self, text):
        return re.sub(r"\{(\w+)\}", lambda found: str(self.values[found[1]]), text)

    def write_files(self):
        port = "{port2}" if self.case == "haproxy" else "{port}"
        # Two workers on one CPU share the connections in another way in each round.
        workers = 1 if self.case == "haproxy" or len(self.cpus[0]) == 1 else 2
        files = {
            "nginx.conf": NGINX % (workers, port), "haproxy.cfg": HAPROXY,
            "index.html": "a page of a few bytes, as many servers send it\n",
        }
        for name, text in files.items():
            with open(os.path.join(self.dir, name), "w", encoding="utf-8") as file:
                file.write(self.fill(text))
        if self.case == "curl":
            with open(os.path.join(self.dir, "big"), "wb") as file:
                file.write(os.urandom(1 << 20) * 8)

    def start(self, line, shared, side, output=subprocess.PIPE):
        words = ["sh", "-c", "exec " + self.fill(line) if "while " not in line else self.fill(line)]
        environment = dict(os.environ)
        if shared and self.library:
            environment["M3_SOCK_LIBRARY"] = self.library
            environment["M3_RUNTIME_DIR"] = self.dir
            self.count += 1
            counters = f"{self.dir}/{self.count}.counters"
            run = [f"{BUILT}/m3", "sock", "run", "--children", "--counters", counters]
            words = [*run, "--", *words]
        return subprocess.Popen(
            words, stdout=output, stderr=subprocess.STDOUT, cwd=self.dir, user=self.user,
            env=environment, start_new_session=True, text=True, stdin=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, self.cpus[side]),
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

    @staticmethod
    def cpu_of(sessions):
        """CPU time of the sessions of some processes, in seconds."""
        sessions = {str(process.pid) for process in sessions}
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

    def begin(self):
        """Starts the client, which runs for a while and stops."""
        self.before = self.requests(self, "") if self.requests in GROWING else 0
        self.cpu_before = self.cpu_of(self.servers)
        with open(f"{self.dir}/client", "w", encoding="utf-8") as output:
            self.running = self.start(self.client, True, 1, output)
        time.sleep(FIRST_S)
        os.killpg(self.running.pid, signal.SIGSTOP)

    def turn(self):
        os.killpg(self.running.pid, signal.SIGCONT)
        time.sleep(SLICE_S)
        os.killpg(self.running.pid, signal.SIGSTOP)

    def finish(self, seconds):
        """Ends the client, whose time is over."""
        client_cpu = self.cpu_of([self.running])
        is_endless = self.requests in ENDLESS
        if self.requests in GROWING:
            count = self.requests(self, "") - self.before
        os.killpg(self.running.pid, signal.SIGKILL if is_endless else signal.SIGCONT)
        code = self.running.wait()
        self.running = None
        # The processes of a server that served this client end, too: then their time counts.
        time.sleep(FIRST_S)
        with open(f"{self.dir}/client", encoding="utf-8") as output:
            text = output.read()
        if code != (-signal.SIGKILL if is_endless else 0):
            sys.exit(f"error: {self.client} ended with {code}: {text[-400:]}")
        if self.requests not in GROWING:
            count = self.requests(self, text)
        self.rates.append(count / seconds)
        used = self.cpu_of(self.servers) - self.cpu_before + client_cpu
        self.used += used
        self.cpu.append(used / max(count, 1))

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
        if self.running:
            os.killpg(self.running.pid, signal.SIGKILL)
            self.running.wait()
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


def cpu_busy():
    """CPU time of all programs, and time that the host took, in seconds."""
    with open("/proc/stat", encoding="utf-8") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / TICK


def noise(ratios):
    """How far the median of such ratios may be from 1."""
    source = random.Random(1)
    medians = sorted(median(source.choices(ratios, k=len(ratios))) for _ in range(SAMPLES))
    cut = SAMPLES // 40
    return max(1 - medians[cut], medians[-1 - cut] - 1)


def verdict(ratio, row_noise, bound):
    if row_noise > bound:
        return "not judged here"
    return "holds" if ratio >= 1 - bound else "slower"


def report(case, options, modes, others):
    first, second, *_libraries = modes
    base = [(one + two) / 2 for one, two in zip(first.rates, second.rates)]
    base_cpu = [(one + two) / 2 for one, two in zip(first.cpu, second.cpu)]
    again = [two / one for one, two in zip(first.rates, second.rates)]
    row_noise = noise(again)
    for mode in modes[1:]:
        is_native = mode is second
        ratios = again if is_native else [rate / of for rate, of in zip(mode.rates, base)]
        cpu = median([one / of for one, of in zip(mode.cpu, first.cpu if is_native else base_cpu)])
        says = verdict(median(ratios), row_noise, options.bound)
        says = f"noise {row_noise:.3f}, others {others:.0%}" if is_native else says
        print(
            f"{case:10} {'busy' if options.busy else 'idle'} {mode.name:14} {median(ratios):5.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f}) CPU {cpu:5.2f} "
            f"rate {median(mode.rates):10.2f} rings {mode.ring_bytes()} {says}",
            flush=True,
        )


def measure(case, options, libraries):
    names = [("native", None), ("native again", None), *libraries]
    modes, loops = [], []
    try:
        modes.extend(Mode(name, case, library, options) for name, library in names)
        if options.busy:
            for cpu in os.sched_getaffinity(0):
                code = f"import os\nos.sched_setaffinity(0, [{cpu}])\nwhile 1: 0"
                loops.append(subprocess.Popen([sys.executable, "-c", code], start_new_session=True))
        turns = round(options.seconds / SLICE_S)
        began, busy = time.monotonic(), cpu_busy()
        for first in range(options.rounds):
            start = time.monotonic()
            for mode in modes:
                mode.begin()
            for turn in range(turns):
                for at in range(len(modes)):
                    modes[(at + turn + first) % len(modes)].turn()
            time.sleep(max(0, start + len(modes) * FIRST_S + options.whole - time.monotonic()))
            for mode in modes:
                mode.finish(FIRST_S + turns * SLICE_S)
        took = (time.monotonic() - began) * os.cpu_count()
        own = sum(mode.used for mode in modes) + sum(Mode.cpu_of([loop]) for loop in loops)
        report(case, options, modes, (cpu_busy() - busy - own) / took)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
        for mode in modes:
            mode.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--bound", type=float, default=0.05)
    parser.add_argument("--library", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("cases", nargs="+", choices=CASES, metavar="CASE")
    options = parser.parse_args()
    # The servers end with the script.
    signal.signal(signal.SIGTERM, lambda *_ignored: sys.exit(143))
    libraries = [tuple(one.split("=", 1)) for one in options.library]
    libraries = libraries or [("m3 sock run", os.path.join(BUILT, "libm3sock.so"))]
    modes = 2 + len(libraries)
    # The clients run for whole seconds, and must not end within their last turn.
    options.whole = math.ceil(0.5 + modes * (1.1 * options.seconds + FIRST_S))
    for postgres in ("/usr/lib/postgresql/15/bin", "/usr/lib/postgresql/17/bin"):
        os.environ["PATH"] += ":" + postgres
    for case in options.cases:
        measure(case, options, libraries)


main()
