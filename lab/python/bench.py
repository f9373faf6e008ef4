"""Calls and hand-overs of the Python package beside others, in one run, two processes each.

    tests/python/wheel.sh --only-build
    target/python/tools/bin/pip --python target/python/venv/bin/python install pyzmq grpcio
    target/python/venv/bin/python lab/python/bench.py

A library that is absent is left out. Each row is the median of the rounds, which take turns: all
mechanisms once, then again.
"""
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from multiprocessing import shared_memory

import m3ipc
import numpy

ROUNDS = int(os.environ.get("ROUNDS", "5"))
CALLS = int(os.environ.get("CALLS", "5000"))
BIG = 12_500_000  # items of 8 bytes: 100 MB
BYTES = b"x" * 48
# What is promised: the row, the part of its time, and the bound in microseconds.
BOUNDS = (
    ("a call, awake", ("call of 48 bytes", "m3ipc"), 1, 3),
    ("a hand-over of 100 MB, one way", ("array of 100 MB", "m3ipc array, there and back"), 0.5, 50),
)
INSIDE, ARRAY = 1, 2  # types of requests: a message of 48 bytes as in C, with 40 for the caller


def median_us(step, count):
    """The median time of a step in microseconds."""
    times = []
    for _ in range(count):
        began = time.perf_counter_ns()
        step()
        times.append(time.perf_counter_ns() - began)
    return statistics.median(times) / 1000


def pin(place):
    """Puts client and server on two CPUs. A child inherits the one CPU of its parent."""
    os.sched_setaffinity(0, range(os.cpu_count()))
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[place % len(cpus)]})


# The servers. Each runs in a process of its own.

def serve_m3(vm):
    pin(1)
    server = m3ipc.Node().vm(vm).bind(name="server")
    for request in server:
        if request.type == INSIDE:
            request.reply(inline=request.inline)
        elif request.type == ARRAY:
            request.reply(request.array)
        else:
            request.reply(request.data)


def serve_pipe(pipe):
    pin(1)
    while (data := pipe.recv_bytes()) != b"":
        pipe.send_bytes(data)


def serve_arrays_pipe(pipe):
    pin(1)
    while (data := pipe.recv()) is not None:
        pipe.send(data[0])


def serve_queue(there, back):
    pin(1)
    while (data := there.get()) is not None:
        back.put(data)


def serve_shared(pipe):
    pin(1)
    while (name := pipe.recv()) is not None:
        memory = shared_memory.SharedMemory(name)
        view = numpy.ndarray(BIG, "f8", buffer=memory.buf)
        pipe.send(float(view[0]))
        del view
        memory.close()


def serve_zmq(address):
    import zmq

    pin(1)
    socket = zmq.Context().socket(zmq.REP)
    socket.bind(address)
    while (data := socket.recv()) != b"":
        socket.send(data)
    socket.send(b"")


def serve_grpc(address):
    import concurrent.futures

    import grpc

    pin(1)
    echo = grpc.unary_unary_rpc_method_handler(lambda data, _: data)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("m3.Echoes", {"Echo": echo}),))
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


def quietly(target, *arguments):
    """Runs a server until its client ends."""
    try:
        target(*arguments)
    except (EOFError, KeyboardInterrupt, m3ipc.Error):
        pass


def process(spawn, target, *arguments):
    made = spawn.Process(target=quietly, args=(target, *arguments), daemon=True)
    made.start()
    return made


def main():
    pin(0)
    spawn = multiprocessing.get_context("spawn")
    vm = m3ipc.Node().open_vm(f"bench{os.getpid()}", life="creator", grace=0.2)
    client = vm.bind()
    process(spawn, serve_m3, vm.name)
    to = client.locate("server", timeout=20)
    calls = {"m3ipc": lambda: client.call(to, BYTES),
             "m3ipc, inside the message": lambda: client.call(to, type=INSIDE, inline=BYTES[:40])}
    hands = {}
    array = [client.array(BIG, to=to)]
    array[0][:] = 1.0

    def hand():
        array[0] = client.call(to, array[0], type=ARRAY).array

    hands["m3ipc array, there and back"] = hand

    own, other = spawn.Pipe()
    process(spawn, serve_pipe, other)

    def by_pipe():
        own.send_bytes(BYTES)
        own.recv_bytes()

    calls["multiprocessing Pipe"] = by_pipe
    there, back = spawn.Queue(), spawn.Queue()
    process(spawn, serve_queue, there, back)

    def by_queue():
        there.put(BYTES)
        back.get()

    calls["multiprocessing Queue"] = by_queue
    big = numpy.ones(BIG)
    own_arrays, other_arrays = spawn.Pipe()
    process(spawn, serve_arrays_pipe, other_arrays)

    def array_by_pipe():
        own_arrays.send(big)
        own_arrays.recv()

    hands["multiprocessing Pipe, one way"] = array_by_pipe
    memory = shared_memory.SharedMemory(create=True, size=BIG * 8)
    shared = numpy.ndarray(BIG, "f8", buffer=memory.buf)
    shared[:] = 1.0
    own_shared, other_shared = spawn.Pipe()
    process(spawn, serve_shared, other_shared)

    def by_shared():
        own_shared.send(memory.name)
        own_shared.recv()

    hands["shared_memory, name by Pipe"] = by_shared
    try:
        import zmq
    except ImportError:
        print("pyzmq is not installed: left out")
    else:
        address = f"ipc:///tmp/m3-bench-{os.getpid()}"
        process(spawn, serve_zmq, address)
        socket = zmq.Context().socket(zmq.REQ)
        socket.connect(address)

        def by_zmq():
            socket.send(BYTES)
            socket.recv()

        calls["pyzmq REQ/REP, ipc://"] = by_zmq
    try:
        import grpc
    except ImportError:
        print("grpcio is not installed: left out")
    else:
        address = f"unix:/tmp/m3-bench-{os.getpid()}-grpc"
        process(spawn, serve_grpc, address)
        channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(channel).result(20)
        echo = channel.unary_unary("/m3.Echoes/Echo")
        calls["grpcio unary, unix:"] = lambda: echo(BYTES)
    for step in (*calls.values(), *hands.values()):
        step()  # first contacts
    results = {}
    for _ in range(ROUNDS):
        for name, step in calls.items():
            count = CALLS if name.startswith("m3ipc") else max(CALLS // 10, 10)
            results.setdefault(("call of 48 bytes", name), []).append(median_us(step, count))
        for name, step in hands.items():
            count = 200 if name.startswith("m3ipc") else 3 if "Pipe, one" in name else 50
            results.setdefault(("array of 100 MB", name), []).append(median_us(step, count))
    siblings = "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list"
    try:
        together = open(siblings, encoding="ascii").read().strip()
    except OSError:
        together = "unknown"
    print(f"Python {sys.version.split()[0]}, numpy {numpy.__version__}, m3ipc {m3ipc.__version__}; "
          f"CPUs 0 and 1; threads of the core of CPU 0: {together}")
    for (what, name), values in results.items():
        print(f"{what:18} {name:32} {statistics.median(values):12.2f} us   "
              f"(rounds {min(values):.2f} to {max(values):.2f})")
    print()
    for what, row, share, bound in BOUNDS:
        figure = statistics.median(results[row]) * share
        result = "holds" if figure <= bound else "FALLS SHORT"
        print(f"{what}: {figure:.2f} us (bound <= {bound} us): {result}")
    del shared
    memory.close()
    memory.unlink()


if __name__ == "__main__":
    main()
