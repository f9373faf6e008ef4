"""Endpoints in asyncio.

>>> import asyncio, m3ipc
>>> async def main():
...     vm = m3ipc.Node().open_vm("aio-example", life="creator")
...     server, client = AsyncEndpoint(vm.bind()), AsyncEndpoint(vm.bind())
...     async def serve():
...         async for request in server:
...             request.reply(request.data.upper())
...     task = asyncio.create_task(serve())
...     answer = await client.call(server.address, b"louder", timeout=5)
...     task.cancel()
...     client.close(), server.close()
...     return answer.data
>>> asyncio.run(main())
b'LOUDER'
"""
from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator
from typing import Any

from . import _bodies
from ._native import Block, Endpoint, Message
from .codec import Codec
from .errors import Error, WouldBlock, _make

# The pauses of a look-up and of a send of a block, in seconds: no descriptor tells their end.
_PAUSE_FIRST, _PAUSE_MAX = 0.0005, 0.02


class AsyncEndpoint:
    """An endpoint of a loop of asyncio, which watches the endpoint's descriptor.

    Every call is cancel safe. A cancelled receive has taken nothing. A cancelled call is
    withdrawn, or its answer is dropped; arrays that were not accepted come back.

    One call at a time goes to each peer; others to the same peer wait for their turn. The calls of
    the endpoint itself, as `notify`, are there too; those that wait must not be used.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._fd = endpoint.fileno()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self._news = 0  # the count at the latest poll of a receive
        self._turns: weakref.WeakValueDictionary[int, asyncio.Lock] = weakref.WeakValueDictionary()

    @property
    def address(self) -> int:
        """The address of the endpoint."""
        return self.endpoint.address

    @property
    def receive_limit(self) -> int:
        """The longest body that the endpoint takes, as `Endpoint.receive_limit`."""
        return self.endpoint.receive_limit

    @receive_limit.setter
    def receive_limit(self, nbytes: int) -> None:
        self.endpoint.receive_limit = nbytes

    async def receive(
        self, source: int | None = None, *, timeout: float | None = None
    ) -> Message:
        """Waits for a message or a notification."""
        try:
            async with asyncio.timeout(timeout):
                return await self._receive(source)
        except TimeoutError as error:
            raise self._late(error, "receive", source) from None

    async def _receive(self, source: int | None) -> Message:
        while True:
            is_news = True
            try:
                message, news = self.endpoint._try_receive(source, bool(self._waiters))
                is_news = message is not None or news != self._news
                self._news = news
                if message is not None:
                    return message
            finally:
                # A poll takes the rings of all, so the other tasks poll after news. A poll without
                # news wakes no task, since two would wake each other.
                if self._waiters and is_news:
                    self._wake()
            await self._ready()

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        return await self.receive()

    async def call(
        self,
        to: int,
        body: Any = None,
        *,
        type: int = 0,
        timeout: float | None = None,
        returns: Any = None,
        codec: Codec | None = None,
    ) -> Any:
        """Sends a request and waits for the answer, as `Endpoint.call` does (no `Block`)."""
        turn = self._turns.setdefault(to, asyncio.Lock())
        try:
            async with asyncio.timeout(timeout), turn:
                answer = await self._call(to, body, type, codec)
        except TimeoutError as error:
            raise self._late(error, "call", to) from None
        return answer if returns is None else answer.decode(returns, codec=codec)

    async def _call(self, to: int, body: Any, m_type: int, codec: Codec | None) -> Message:
        endpoint = self.endpoint
        data, inline, given = _bodies.encode(endpoint, to, body, codec)
        pending = None
        try:
            pending = endpoint._begin(to, data, m_type, inline)
            while (answer := endpoint._poll(pending)) is None:
                await self._ready()
            return answer
        except BaseException as error:
            self._give_up(endpoint._abandon, pending, given, error)
            raise

    def _give_up(self, end: Any, begun: Any, given: Any, error: BaseException) -> None:
        """Ends a message that was begun, and takes its arrays back if the peer has not taken it."""
        taken = getattr(error, "taken", None)
        if begun is not None:
            try:
                taken = end(begun) or taken  # the arrays of a late answer end with it
            except Error:  # the endpoint is gone, and the message with it
                pass
        _bodies.take_back(self.endpoint, given, taken)

    async def send(
        self,
        to: int,
        body: Any = None,
        *,
        type: int = 0,
        timeout: float | None = None,
        codec: Codec | None = None,
    ) -> None:
        """Sends a message, and returns when the peer has taken it.

        The receiver may be a task of the same loop, unless the body is a `Block`: a receiver of
        that is another thread or process.
        """
        turn = self._turns.setdefault(to, asyncio.Lock())
        try:
            async with asyncio.timeout(timeout), turn:
                if isinstance(body, Block):
                    await self._send_block(to, body, type)
                else:
                    await self._send(to, body, type, codec)
        except TimeoutError as error:
            raise self._late(error, "send", to) from None

    async def _send(self, to: int, body: Any, m_type: int, codec: Codec | None) -> None:
        endpoint = self.endpoint
        data, inline, given = _bodies.encode(endpoint, to, body, codec)
        sending = None
        try:
            sending = endpoint._begin_send(to, data, m_type, inline)
            while not endpoint._poll_send(sending):
                await self._ready()
        except BaseException as error:
            self._give_up(endpoint._withdraw, sending, given, error)
            raise

    async def _send_block(self, to: int, block: Block, m_type: int) -> None:
        pause = _PAUSE_FIRST
        while True:
            try:
                self.endpoint._with_block("send", to, block, m_type, 0)
                return
            except WouldBlock:
                await asyncio.sleep(pause)
            pause = min(pause * 2, _PAUSE_MAX)

    async def locate(self, name: str, *, timeout: float | None = None) -> int:
        """Waits until an endpoint has the name. Returns its address."""
        from .errors import NotFound

        pause = _PAUSE_FIRST
        try:
            async with asyncio.timeout(timeout):
                while True:
                    try:
                        return self.endpoint.locate(name, timeout=0)
                    except NotFound:
                        await asyncio.sleep(pause)
                    pause = min(pause * 2, _PAUSE_MAX)
        except TimeoutError as error:
            raise self._late(error, "wait", None) from None

    def reply(self, to: int, body: Any = None, *, type: int = 0) -> bool:
        """Answers a request. Never waits. False if its sender does not wait any more."""
        return self.endpoint.reply(to, body, type=type)

    def notify(self, to: int) -> None:
        """Notifies a peer. Never waits."""
        self.endpoint.notify(to)

    def close(self) -> None:
        """Ends the endpoint. Its waiting tasks get `Unbound`."""
        self._stop_reading()
        self.endpoint.close()
        self._wake()

    async def __aenter__(self) -> AsyncEndpoint:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def _late(self, error: TimeoutError, op: str, peer: int | None) -> BaseException:
        if isinstance(error, Error):
            return error
        whom = "the endpoint" if peer is None else f"endpoint {peer}"
        text = f"the time limit passed during the wait for {whom}; repeat it or raise the limit"
        return _make(op, -61, text, peer)

    async def _ready(self) -> None:
        """Waits until the endpoint may have news."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._stop_reading()
            loop.add_reader(self._fd, self._wake)
            self._loop = loop
        waiter = loop.create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    def _wake(self) -> None:
        if not self._waiters:
            self._stop_reading()  # the descriptor stays readable until a task polls
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _stop_reading(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._fd)
