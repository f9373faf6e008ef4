"""Two processes, an array of 100 MB without a copy, an asyncio server, a crash as an exception.

    tests/python/wheel.sh --only-build
    target/python/venv/bin/python examples/python/arrays.py
"""
import asyncio, os, subprocess, sys

import m3ipc


async def serve(vm):
    """Doubles the arrays that come, and dies at the request b"crash"."""
    server = m3ipc.AsyncEndpoint(vm.bind(name="doubler"))
    async for request in server:
        if request.data == b"crash":
            os._exit(1)
        array = request.array
        array[:] *= 2
        request.reply(array)


def main():
    node = m3ipc.Node()
    if sys.argv[1:] == ["serve"]:
        return asyncio.run(serve(node.vm("arrays")))
    client = node.open_vm("arrays", life="creator").bind()
    server = subprocess.Popen([sys.executable, __file__, "serve"])
    doubler = client.locate("doubler", timeout=10)
    array = client.array(12_500_000, "float64", to=doubler)  # 100 MB
    array[:] = 21.0
    array = client.call(doubler, array).array
    print("doubled:", array[0], array[-1])
    try:
        client.call(doubler, b"crash")
    except m3ipc.DiedAfter as error:
        print("the server died:", error)
    server.wait()


main()
