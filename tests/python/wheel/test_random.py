"""64 requests in flight under random time limits, cancels, drops of endpoints, kills and restarts.

Each request has one outcome, and it is true: the server writes the number of each request that it
takes to a file. In the end this process and the daemon hold what they held before.

M3_SOAK_SECONDS sets the time.
"""
import asyncio
import collections
import gc
import itertools
import os
import random
import signal
import struct
import time
from pathlib import Path

import m3ipc
from m3ipc import AsyncEndpoint

SECONDS = float(os.environ.get("M3_SOAK_SECONDS", "2"))
CLIENTS = 64
SIZES = (8, 60, 1000, 6000, 100000)
NUMBER = struct.Struct("<Q")
# Memory that allocator and daemon may keep for later, and that a request needs in our records.
KEPT_KB, RECORD_BYTES = 64 << 10, 1024
SERVER = """
    import asyncio, random, struct
    async def main():
        server = m3ipc.AsyncEndpoint(vm.bind(name="server"))
        async for request in server:
            if not request.is_request:
                continue
            arrays = request.arrays
            if any(isinstance(array, Exception) for array in arrays):
                body = b"lost"  # the array of a client that has gone
            else:
                number = int(arrays[0][0]) if arrays else struct.unpack_from("<Q", request.data)[0]
                os.write(RECORD, struct.pack("<Q", number))
                body = list(arrays) or request.data
            await asyncio.sleep(random.choice([0, 0, 0, 0.001]))
            try:
                request.reply(body)
            except m3ipc.Error:  # the client has gone
                pass
    RECORD = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
    asyncio.run(main())
"""


def holdings(process):
    """Descriptors, mappings of shared memory, and the private memory in KB."""
    place = Path("/proc") / str(process)
    mappings = sum("/memfd:" in line for line in (place / "maps").read_text().splitlines())
    lines = (line.split() for line in (place / "smaps_rollup").read_text().splitlines())
    private = sum(int(words[1]) for words in lines if words[0].startswith("Private_"))
    return len(os.listdir(place / "fd")), mappings, private


def what_is_held():
    """Names of descriptors and of mappings of shared memory, with their numbers."""
    links = (os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink())
    lines = Path("/proc/self/maps").read_text().splitlines()
    maps = (line.split(maxsplit=5)[5] for line in lines if "/memfd:" in line)
    return collections.Counter(links), collections.Counter(maps)


async def outcome_of(client, to, number, chance):
    """Makes one call, and says what its caller learned."""
    size = chance.choice(SIZES[:4] if chance.random() < 0.95 else SIZES)
    is_array = number % 5 == 0
    try:
        if is_array:
            body = client.endpoint.array(number % 1000 + 1)
            body[0] = number
        else:
            body = NUMBER.pack(number) + bytes(size - NUMBER.size)
        answer = await client.call(to, body, timeout=chance.choice([0.001, 0.01, 20, None]))
        if is_array:
            assert answer.array[0] == number
        else:
            assert answer.data == body, (number, len(body), len(answer.data), answer.data[:16])
        return "answered"
    except m3ipc.CallTimedOut:
        return "timed out"
    except m3ipc.NotTaken:
        return "not taken"
    except (m3ipc.OutcomeUnknown, m3ipc.Died):  # Died: the answer came, its array did not
        return "taken"
    except m3ipc.Unbound:  # the endpoint was closed under the call
        return "dropped"
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


class Soak:
    def __init__(self, vm, chance):
        self.vm, self.chance = vm, chance
        self.numbers, self.ends, self.is_over = itertools.count(1), {}, False

    async def one(self, client, to, number):
        how = "cancelled"
        try:
            how = await outcome_of(client, to, number, self.chance)
        finally:
            assert number not in self.ends
            self.ends[number] = how

    async def call_often(self):
        """Calls from one endpoint after the other. Some lose a task, some end under a call."""
        chance = self.chance
        while not self.is_over:
            client = AsyncEndpoint(self.vm.bind())
            left = chance.randrange(1, 200)
            while left > 0 and not self.is_over:
                try:
                    to = client.endpoint.locate("server", timeout=0)
                except m3ipc.NotFound:
                    await asyncio.sleep(0.002)
                    continue
                left -= 1
                task = asyncio.create_task(self.one(client, to, next(self.numbers)))
                if chance.random() < 0.1:
                    await asyncio.sleep(chance.random() * 0.003)
                    task.cancel()
                elif left == 0 and chance.random() < 0.5:
                    await asyncio.sleep(0)
                    client.close()
                await asyncio.wait([task])
                if not task.cancelled():
                    task.result()
            client.close()

    def check(self, record):
        taken = [number for (number,) in NUMBER.iter_unpack(record.read_bytes())]
        assert len(set(taken)) == len(taken), "a request was taken twice"
        assert len(self.ends) == next(self.numbers) - 1, "a request has no outcome"
        counts = collections.Counter(self.ends.values())
        assert counts["answered"] > 0, counts
        taken = set(taken)
        for number, how in self.ends.items():
            if how == "answered":
                assert number in taken, f"an answer to request {number}, which nobody took"
            if how == "not taken":
                assert number not in taken, f"request {number} was taken, and its error denies it"
        return counts


def test_each_request_has_one_end(program, node, vm, tmp_path):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance, record = random.Random(seed), tmp_path / "record"
    record.touch()
    soak, kills = Soak(vm, chance), 0
    daemon = int((Path(node.directory) / "lock").read_text())
    own = vm.bind()
    own.array(8).numpy().sum()  # numpy is loaded
    own.fileno()  # the endpoint has its descriptor
    gc.collect()
    before = holdings("self"), holdings(daemon)

    def start():
        return program(SERVER, arguments=[record])

    async def main():
        nonlocal kills
        server = start()
        clients = [asyncio.create_task(soak.call_often()) for _ in range(CLIENTS)]
        until = time.monotonic() + SECONDS
        while time.monotonic() < until and not any(client.done() for client in clients):
            # The next kill comes after a start, or in it.
            limit = chance.choice([0.05, 60])
            try:
                await AsyncEndpoint(own).locate("server", timeout=limit)
            except m3ipc.TimedOut:
                pass
            await asyncio.sleep(chance.random() * 0.3)
            server.send_signal(signal.SIGKILL)
            server.wait()
            kills += 1
            server = start()
        await AsyncEndpoint(own).locate("server")
        soak.is_over = True
        await asyncio.gather(*clients)
        server.kill()
        server.wait()

    asyncio.run(main())
    counts = soak.check(record)
    # Links and areas of the dead servers end a moment after them.
    until = time.monotonic() + 30
    while True:
        gc.collect()
        after = holdings("self"), holdings(daemon)
        left = [now[:2] for now, then in zip(after, before) if now[0] > then[0] or now[1] > then[1]]
        if not left:
            break
        assert time.monotonic() < until, (before, after, what_is_held())
        own.is_bound  # reads the daemon's news
        time.sleep(0.01)
    print(f"{len(soak.ends)} requests: {dict(counts)}; {kills} kills")
    print(f"this process and the daemon: before {before}, after {after}")
    assert after[0][2] - before[0][2] <= KEPT_KB + len(soak.ends) * RECORD_BYTES // 1024
    assert after[1][2] - before[1][2] <= KEPT_KB
    own.close()
