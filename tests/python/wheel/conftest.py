"""A node of its own for all tests, and a VM for each."""
import faulthandler
import gc
import itertools
import os
import subprocess
import sys
import textwrap
import threading

import m3ipc
import pytest

LIMIT_S = 120 + float(os.environ.get("M3_SOAK_SECONDS", "2"))
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def watchdog():
    """Ends a test that hangs, with the places of its threads."""
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def node(tmp_path_factory):
    directory = tmp_path_factory.mktemp("node")
    os.environ["M3_RUNTIME_DIR"] = str(directory)
    return m3ipc.Node(directory)


@pytest.fixture
def vm(node):
    made = node.open_vm(f"test{next(_numbers)}", life="creator", grace=0.1)
    yield made
    gc.collect()
    # An endpoint that is still open would end this process with its VM.
    node.end_vm(made)


@pytest.fixture
def bind(vm):
    """Binds endpoints, and closes them after the test."""
    bound = []

    def bind_one(name=None):
        bound.append(vm.bind(name=name))
        return bound[-1]

    yield bind_one
    for endpoint in bound:
        endpoint.close()


@pytest.fixture
def pair(bind):
    """A server and a client."""
    return bind("server"), bind("client")


@pytest.fixture
def serving(pair):
    """Runs a function for each message of the server, in a thread, until the test ends."""
    server, client = pair
    threads = []

    def serve(answer):
        def loop():
            for message in server:
                if message.is_notification:
                    return
                answer(message)

        threads.append(threading.Thread(target=loop))
        threads[-1].start()
        return server.address, client

    yield serve
    for _ in threads:
        client.notify(server.address)
    for thread in threads:
        thread.join()


@pytest.fixture
def program(node, vm):
    """Starts a program in another process of the VM, which has `vm` and `m3ipc`."""
    started = []

    def start(text, arguments=(), **options):
        head = f"import m3ipc, os, signal, sys, time\nvm = m3ipc.Node().vm({vm.name!r})\n"
        # A shell may start its background jobs with SIGINT ignored.
        head += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        words = [sys.executable, "-c", head + textwrap.dedent(text), *arguments]
        started.append(subprocess.Popen(words, text=True, **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr, process.stdin):
            if pipe is not None:
                pipe.close()
