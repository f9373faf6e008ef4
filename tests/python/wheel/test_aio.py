"""asyncio: calls, cancellation, deaths, arrays."""
import asyncio
import gc
import signal
import threading

import m3ipc
import numpy as np
import pytest
from m3ipc import AsyncEndpoint, _bodies


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 50))


async def echo(server):
    async for request in server:
        if request.is_request:
            request.reply(list(request.arrays) or request.data)


def test_calls_of_many_tasks(bind):
    async def main():
        server = AsyncEndpoint(bind())
        clients = [AsyncEndpoint(bind()) for _ in range(5)]
        task = asyncio.create_task(echo(server))
        calls = [clients[number % 5].call(server.address, b"%d" % number) for number in range(200)]
        answers = await asyncio.gather(*calls)
        task.cancel()
        return [answer.data for answer in answers]

    assert run(main()) == [b"%d" % number for number in range(200)]


def test_a_server_and_a_client_of_one_endpoint(bind):
    async def main():
        front, back, client = (AsyncEndpoint(bind()) for _ in range(3))

        async def forward(request):
            answer = await front.call(back.address, request.data)
            request.reply(answer.data + b"!")

        async def serve():
            async with asyncio.TaskGroup() as group:
                async for request in front:
                    group.create_task(forward(request))

        tasks = [asyncio.create_task(serve()), asyncio.create_task(echo(back))]
        answers = [await client.call(front.address, b"%d" % number) for number in range(50)]
        for task in tasks:
            task.cancel()
        return [answer.data for answer in answers]

    assert run(main()) == [b"%d!" % number for number in range(50)]


def test_other_tasks_run_during_a_wait(bind):
    async def main():
        server = AsyncEndpoint(bind())
        ticks = []

        async def tick():
            while True:
                await asyncio.sleep(0.01)
                ticks.append(1)

        ticking = asyncio.create_task(tick())
        with pytest.raises(m3ipc.TimedOut):
            await server.receive(timeout=0.3)
        ticking.cancel()
        assert len(ticks) > 3

    run(main())


def test_a_time_limit(bind):
    async def main():
        server, client = AsyncEndpoint(bind()), AsyncEndpoint(bind())
        with pytest.raises(m3ipc.TimedOut):
            await server.receive(timeout=0.02)
        with pytest.raises(m3ipc.CallTimedOut) as error:
            await client.call(server.address, b"x", timeout=0.02)
        assert (error.value.code, error.value.peer) == (-61, server.address)
        assert server.endpoint.try_receive() is None, "the request was withdrawn"
        with pytest.raises(m3ipc.TimedOut):
            await client.locate("nobody", timeout=0.02)
        with pytest.raises(m3ipc.TimedOut):
            await client.send(server.address, b"x", timeout=0.02)

    run(main())


def test_a_cancelled_receive_has_taken_nothing(bind):
    async def main():
        server, client = AsyncEndpoint(bind()), AsyncEndpoint(bind())
        for number in range(50):
            waiting = asyncio.create_task(server.receive())
            await asyncio.sleep(0)
            client.notify(server.address)
            if number % 2:
                await asyncio.sleep(0)
            waiting.cancel()
            taken = await asyncio.gather(waiting, return_exceptions=True)
            message = taken[0]
            if not isinstance(message, m3ipc.Message):
                message = await server.receive(timeout=20)
            assert message.is_notification

    run(main())


async def waits(endpoint):
    """Until a task waits for news of the endpoint."""
    while not endpoint._waiters:
        await asyncio.sleep(0)


def test_a_task_that_receives_does_not_keep_another_one_asleep(bind):
    async def main():
        server, one, two = (AsyncEndpoint(bind()) for _ in range(3))
        for client in one, two:
            client.notify(server.address)
            await server.receive()
        first = asyncio.create_task(server.receive())
        await waits(server)
        one.notify(server.address)
        assert (await server.receive()).source == one.address, "without a turn of the loop"
        one.notify(server.address)
        assert (await first).source == one.address
        # This task takes the ring for the first one, and finds nothing for itself.
        first = asyncio.create_task(server.receive(one.address))
        await waits(server)
        first.add_done_callback(lambda _: two.notify(server.address))
        one.notify(server.address)
        assert (await server.receive(two.address)).source == two.address
        assert (await first).source == one.address

    run(main())


def test_a_cancelled_call_frees_the_array_of_an_answer_that_has_come(bind):
    async def main():
        server, client = AsyncEndpoint(bind()), AsyncEndpoint(bind())
        places = set()
        for _ in range(3):
            call = asyncio.create_task(client.call(server.address, b"x"))
            request = await server.receive()
            array = server.endpoint.array(100_000)
            places.add(array.numpy().ctypes.data)
            assert request.reply(array)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            gc.collect()
        assert len(places) == 1, "the next array has the place of the last one"

    run(main())


def test_a_cancelled_call_gives_its_array_back(bind):
    async def main():
        server, client = AsyncEndpoint(bind()), AsyncEndpoint(bind())
        array = client.endpoint.array(10)
        array[:] = 4.0
        call = asyncio.create_task(client.call(server.address, array))
        await asyncio.sleep(0.02)
        assert not array.is_held
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert array.is_held and array[9] == 4.0
        task = asyncio.create_task(echo(server))
        assert (await client.call(server.address, array, timeout=20)).array[9] == 4.0
        task.cancel()

    run(main())


def test_a_cancelled_call_that_was_taken_disturbs_no_other(bind):
    async def main():
        server, client = AsyncEndpoint(bind()), AsyncEndpoint(bind())
        call = asyncio.create_task(client.call(server.address, b"first"))
        request = await server.receive(timeout=20)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert request.reply(b"late") is False
        task = asyncio.create_task(echo(server))
        assert (await client.call(server.address, b"second", timeout=20)).data == b"second"
        task.cancel()

    run(main())


def test_kill_of_a_server_under_calls(program, bind):
    victim = program("""
        import asyncio
        async def main():
            async for request in m3ipc.AsyncEndpoint(vm.bind(name="victim")):
                pass
        asyncio.run(main())
    """)

    async def main():
        clients = [AsyncEndpoint(bind()) for _ in range(8)]
        to = await clients[0].locate("victim", timeout=40)
        calls = [asyncio.create_task(client.call(to, b"x")) for client in clients]
        await asyncio.sleep(0.3)
        victim.send_signal(signal.SIGKILL)
        return await asyncio.gather(*calls, return_exceptions=True)

    ends = run(main())
    assert all(isinstance(end, m3ipc.Died) for end in ends), ends


def test_closing_ends_the_waits(bind):
    async def main():
        server = AsyncEndpoint(bind())
        waiting = asyncio.create_task(server.receive())
        await asyncio.sleep(0.01)
        server.close()
        with pytest.raises(m3ipc.Unbound):
            await waiting

    run(main())


def test_an_endpoint_moves_to_another_loop(bind):
    server, client = AsyncEndpoint(bind()), AsyncEndpoint(bind())

    async def main():
        task = asyncio.create_task(echo(server))
        answer = await client.call(server.address, b"x", timeout=20)
        task.cancel()
        return answer.data

    assert [run(main()) for _ in range(3)] == [b"x"] * 3


def test_a_send_copies_an_array_once(bind, monkeypatch):
    copies = []
    copied = _bodies.copied
    monkeypatch.setattr(_bodies, "copied", lambda *all: copies.append(1) or copied(*all))
    server, got = bind(), []

    async def main():
        client = AsyncEndpoint(bind())
        with pytest.raises(m3ipc.TimedOut):
            await client.send(server.address, np.ones(10_000), timeout=0.1)
        sending = asyncio.create_task(client.send(server.address, np.ones(10_000)))
        await asyncio.sleep(0.05)
        taking = threading.Thread(target=lambda: got.append(server.receive(timeout=30)))
        taking.start()
        await sending
        await asyncio.to_thread(taking.join)

    run(main())
    assert (got[0].array.numpy() == 1.0).all()
    assert len(copies) == 2


def test_a_send_to_a_receiver_of_the_same_loop(bind):
    async def main():
        sender, receiver = AsyncEndpoint(bind()), AsyncEndpoint(bind())
        bodies = [b"short", b"x" * 1000, b"y" * 300_000]
        for first in (True, False):  # who begins to wait
            for body in bodies:
                parts = [receiver.receive(timeout=30), sender.send(receiver.address, body)]
                done = await asyncio.gather(*(parts if first else reversed(parts)))
                (message,) = [part for part in done if part is not None]
                assert (message.data, message.is_request) == (body, False)
        # Several tasks send to one peer, in turn.
        sends = [sender.send(receiver.address, b"%d" % number) for number in range(50)]
        sending = asyncio.gather(*sends)
        taken = [(await receiver.receive(timeout=30)).data for _ in range(50)]
        await sending
        assert sorted(taken) == sorted(b"%d" % number for number in range(50))

    run(main())


def test_a_cancelled_send_is_withdrawn(bind):
    async def main():
        sender, receiver = AsyncEndpoint(bind()), AsyncEndpoint(bind())
        with pytest.raises(m3ipc.TimedOut):
            await sender.send(receiver.address, b"late", timeout=0.02)
        task = asyncio.create_task(sender.send(receiver.address, b"cancelled"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        array = sender.endpoint.array(4, "f8")
        array[...] = 7
        task = asyncio.create_task(sender.send(receiver.address, array))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert list(np.asarray(array)) == [7] * 4, "it came back"
        await asyncio.gather(sender.send(receiver.address, b"last"), receiver_takes(receiver))

    async def receiver_takes(receiver):
        assert (await receiver.receive(timeout=30)).data == b"last"

    run(main())


@pytest.mark.parametrize("count", [10, 100_000])
def test_an_array_that_was_taken_does_not_come_back(bind, count):
    async def main():
        server, client = AsyncEndpoint(bind()), AsyncEndpoint(bind())
        for begin in client.call, client.send:
            array = client.endpoint.array(count)
            task = asyncio.create_task(begin(server.address, array))
            await waits(client)
            message = server.endpoint.try_receive()
            assert message.array.shape == (count,)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not array.is_held

    run(main())


class Notifying:
    """An endpoint that a client notifies right after a poll for it has found nothing."""

    def __init__(self, endpoint, clients, number):
        self._endpoint, self._clients, self._number, self.polls = endpoint, clients, number, []

    def __getattr__(self, name):
        return getattr(self._endpoint, name)

    def _try_receive(self, source, has_others):
        self.polls.append(source)
        found = self._endpoint._try_receive(source, has_others)
        if found[0] is None and len(self.polls) == self._number:
            self._clients[source].notify(self.address)
        return found


@pytest.mark.parametrize("number", range(1, 5))
def test_a_poll_that_takes_the_ring_of_another_task_wakes_it(bind, number):
    async def main():
        server, one, two, three = (AsyncEndpoint(bind()) for _ in range(4))
        clients = {client.address: client for client in (one, two)}
        for client in one, two, three:
            client.notify(server.address)
            await server.receive()
        tasks = {to: asyncio.create_task(server.receive(to)) for to in clients}
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(server._waiters) == 2
        server.endpoint = Notifying(server.endpoint, clients, number)
        three.notify(server.address)
        for _ in range(50):
            await asyncio.sleep(0)
        if len(server.endpoint.polls) < number:
            server.endpoint._number = 0
            one.notify(server.address)
        done, late = await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        (first,) = [to for to, task in tasks.items() if task in done]
        (second,) = clients.keys() - {first}
        # Without news the tasks do not wake each other.
        polls = len(server.endpoint.polls)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(server.endpoint.polls) <= polls + 2
        clients[second].notify(server.address)
        assert (await tasks[second]).source == second
        assert (await server.receive()).source == three.address

    run(main())
