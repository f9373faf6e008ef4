"""Random cancels, time limits and kills under many calls: each request has one end.

M3_PYTHON_SOAK_SECONDS sets the time.
"""
import asyncio
import gc
import os
import random
import signal
import sys
import textwrap
import time

import m3ipc
from m3ipc import AsyncEndpoint

SECONDS = float(os.environ.get("M3_PYTHON_SOAK_SECONDS", "3"))
SERVER = """
    import asyncio, random
    async def main():
        server = m3ipc.AsyncEndpoint(vm.bind(name="server"))
        async for request in server:
            if not request.is_request:
                continue
            await asyncio.sleep(random.choice([0, 0, 0.001]))
            try:
                request.reply(list(request.arrays) or request.data)
            except m3ipc.NotTaken:
                pass
    asyncio.run(main())
"""


def test_each_request_has_one_end(program, bind):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    ends = {}
    endpoints = [AsyncEndpoint(bind()) for _ in range(16)]
    tasks = 64

    async def one(client, number):
        try:
            to = client.endpoint.locate("server", timeout=0)
            body = b"%d" % number
            if number % 5 == 0:
                body = client.endpoint.array(number % 1000 + 1)
                body[0] = number
            answer = await client.call(to, body, timeout=chance.choice([0.001, 0.01, 20, None]))
            if number % 5 == 0:
                assert answer.array[0] == number
            else:
                assert answer.data == b"%d" % number
            return "answered"
        except m3ipc.CallTimedOut:
            return "timed out"
        except m3ipc.NotTaken:
            await asyncio.sleep(0.002)
            return "not taken"
        except (m3ipc.OutcomeUnknown, m3ipc.Died):  # Died: the answer came, its array did not
            return "taken"
        except m3ipc.NotFound:
            await asyncio.sleep(0.002)
            return "no server"
        except m3ipc.PeerBroke:
            # The array of a server that was killed: the news of its areas came first. A server that
            # lives broke the rules.
            for _ in range(1000):
                try:
                    if client.endpoint.locate("server", timeout=0) != to:
                        return "taken"
                except m3ipc.NotFound:
                    return "taken"
                await asyncio.sleep(0.01)
            raise

    async def work(index, until):
        while time.monotonic() < until:
            number = chance.randrange(1 << 30)
            task = asyncio.create_task(one(endpoints[index % len(endpoints)], number))
            if chance.random() < 0.2:
                await asyncio.sleep(chance.random() * 0.003)
                task.cancel()
            try:
                end = await task
            except asyncio.CancelledError:
                end = "cancelled"
            ends[end] = ends.get(end, 0) + 1

    async def main():
        server = program(SERVER)
        until = time.monotonic() + SECONDS
        working = [asyncio.create_task(work(index, until)) for index in range(tasks)]
        while time.monotonic() < until:
            await asyncio.sleep(0.5 + chance.random() * 0.5)
            server.send_signal(signal.SIGKILL)
            server.wait()
            server = program(SERVER)
        await asyncio.wait_for(asyncio.gather(*working), 40)
        server.kill()

    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(main())
    gc.collect()
    assert ends.get("answered", 0) > 0, ends
    # The areas and the links of the last servers may still be there.
    after = len(os.listdir("/proc/self/fd"))
    print(ends, before, after)
    assert after <= before + 4 * len(endpoints)
