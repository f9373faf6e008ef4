"""Two nodes of one VM on this machine, with daemons and proxies of their own."""
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import m3ipc

REGISTRY = """
cluster = "test"
[[node]]
id = 1
name = "alpha"
address = "127.0.0.1:{}"
[[node]]
id = 2
name = "beta"
address = "127.0.0.1:{}"
[[vm]]
id = 3
name = "shop"
slots = {{ alpha = [[-35, 9], [29, 99]], beta = [[10, 28], [100, 199]] }}
backups = [{{ slot = 10, node = "alpha" }}]
"""


def free_ports(number):
    """Ports below those that the kernel gives to connections."""
    found = []
    port = 10_000 + os.getpid() % 20_000
    while len(found) < number:
        port += 1
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                found.append(port)
            except OSError:
                pass
    return found


class Nodes:
    """The nodes alpha and beta. Slot 10 of beta has its backup on alpha."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.programs = Path(os.environ["M3_PROGRAMS"])
        self.processes = []
        self.proxies = {}
        self._run("m3-proxy", "keys", "alpha", "beta")
        (directory / "nodes.toml").write_text(REGISTRY.format(*free_ports(2)))
        for node in ("alpha", "beta"):
            self._run("m3", "vm", "create", "shop", "--id", "3",
                      "--runtime-dir", self.runtime(node))
            (directory / f"{node}.toml").write_text(
                f'node = "{node}"\nregistry = "nodes.toml"\nkeys = "m3-keys"\n'
                f'runtime_dir = "{self.runtime(node)}"\n')
            self.start_proxy(node)

    def _run(self, program, *arguments):
        subprocess.run([self.programs / program, *arguments], cwd=self.directory, check=True,
                       capture_output=True)

    def runtime(self, node):
        """The runtime directory of a node."""
        return str(self.directory / node)

    def start_proxy(self, node):
        """Starts the proxy of a node."""
        with open(self.directory / f"{node}.log", "a", encoding="utf-8") as log:
            self.proxies[node] = subprocess.Popen(
                [self.programs / "m3-proxy", "run", "--config", f"{node}.toml"],
                cwd=self.directory, stdout=log, stderr=log)

    def start(self, node, text, **options):
        """Starts a program on a node, which has `vm`, `m3ipc` and `m3ipc.Node`."""
        head = "import m3ipc, os, signal, sys, threading, time\nvm = m3ipc.Node().vm('shop')\n"
        # A shell may start its background jobs with SIGINT ignored.
        head += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        head += textwrap.dedent(COMMON)
        words = [sys.executable, "-u", "-c", head + textwrap.dedent(text)]
        environment = os.environ | {"M3_RUNTIME_DIR": self.runtime(node)}
        started = subprocess.Popen(words, text=True, env=environment, stdout=subprocess.PIPE,
                                   stdin=subprocess.PIPE, **options)
        self.processes.append(started)
        return started

    def end(self):
        """Ends the programs, the proxies and the daemons."""
        for process in [*self.processes, *self.proxies.values()]:
            process.kill()
            process.wait()
            for pipe in (process.stdout, process.stdin):
                if pipe is not None:
                    pipe.close()
        for node in ("alpha", "beta"):
            m3ipc.Node(self.runtime(node)).end()


# What the programs share.
COMMON = """
def until(step):
    "Repeats a step that the other node does not know of yet."
    while True:
        try:
            return step()
        except (m3ipc.NotTaken, m3ipc.Unbound, m3ipc.NotMoved) as error:
            if isinstance(error, m3ipc.Unbound):
                raise
            time.sleep(0.02)


def serve(me, name):
    "Answers with the name, and moves when it is asked to."
    for request in me:
        request.reply(name)
        if request.data == b"move":
            until(me.migrate)
            print("moved", flush=True)
            return
"""
