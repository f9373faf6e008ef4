"""Microkernel-style IPC for Linux: a call ends with a reply or an error.

>>> import m3ipc, threading
>>> vm = m3ipc.Node().open_vm("example", life="creator")
>>> server, client = vm.bind(name="greeter"), vm.bind()
>>> def serve_one():
...     request = server.receive(timeout=5)
...     request.reply(b"hello, " + request.data)
>>> thread = threading.Thread(target=serve_one)
>>> thread.start()
>>> client.call(client.locate("greeter"), b"world", timeout=5).data
b'hello, world'
>>> thread.join()

| to | use |
|---|---|
| send bytes, typed values, arrays | `Endpoint.call`, `Endpoint.receive`, `Message.reply` |
| hand numpy arrays over without a copy | `Endpoint.array`, `Array` |
| run functions in other processes | `Pool` |
| use asyncio | `AsyncEndpoint` |
| tell the causes of errors apart | `m3ipc.errors` |
"""
import os as _os

from . import errors
from ._native import (
    ANY, MAX_BYTES, Block, Endpoint, Given, Message, Node, Pending, Vm, __version__, _after_fork,
)
from .aio import AsyncEndpoint
from .arrays import Array
from .codec import Codec, DecodeError, Json, MessagePack
from .errors import (
    AnswerLost, BadValue, Busy, CallInterrupted, CallTimedOut, DaemonGone, Deadlock, Died,
    DiedAfter, DiedBefore, Error, Forked, Interrupted, InUse, MoveTimedOut, NoResources, NoSuchPeer,
    NotFound, NotMoved, NotTaken, NotWaiting, OutcomeUnknown, PeerBroke, Refused, TimedOut, TooLong,
    Unbound, Unreachable, VersionMismatch, WorkerDied, WouldBlock,
)
from .pool import Pool, TaskFailed

_os.register_at_fork(after_in_child=_after_fork)

# The daemon of the wheel serves where no other is named or installed.
_daemon = _os.path.join(_os.path.dirname(_os.path.abspath(__file__)), "bin", "m3d")
if "M3_DAEMON" not in _os.environ and _os.access(_daemon, _os.X_OK):
    _os.environ["M3_DAEMON"] = _daemon

__all__ = [
    "ANY", "MAX_BYTES", "AnswerLost", "Array", "AsyncEndpoint", "BadValue", "Block", "Busy",
    "CallInterrupted", "CallTimedOut", "Codec", "DaemonGone", "Deadlock", "DecodeError", "Died",
    "DiedAfter", "DiedBefore", "Endpoint", "Error", "Forked", "Given", "InUse", "Interrupted",
    "Json", "Message", "MessagePack", "MoveTimedOut", "NoResources", "NoSuchPeer", "Node",
    "NotFound", "NotMoved", "NotTaken", "NotWaiting", "OutcomeUnknown", "PeerBroke", "Pending",
    "Pool", "Refused", "TaskFailed", "TimedOut", "TooLong", "Unbound", "Unreachable",
    "VersionMismatch", "Vm", "WorkerDied", "WouldBlock", "__version__", "errors",
]
