"""The program of a pool's worker. `_processes` starts it with VM PARENT PIPE KIND MAIN.

It runs the functions that its parent names, in modules that it imports itself, and takes requests
of its parent alone. It ends with its parent: the kernel kills it when the pipe has no writer.
"""
from __future__ import annotations

import fcntl
import importlib
import os
import runpy
import select
import signal
import sys
import traceback
from typing import Any

from . import Node, _bodies, _tasks
from ._native import Message
from .arrays import Array, block_under, plain_dtype
from .errors import Died, Unbound

# The name under which the parent's main program is imported, so that its guard does not run it.
_MAIN = "__m3ipc_main__"
# Bytes of a failure that the link takes without memory beside it.
_FAILURE_MAX = 1_700


class Functions:
    """The functions that tasks name."""

    def __init__(self, kind: str, main: str) -> None:
        self.kind, self.main = kind, main
        self.found: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """The function MODULE:QUALNAME."""
        if name not in self.found:
            module, _, path = name.partition(":")
            held: Any = self._main() if module == "__main__" else importlib.import_module(module)
            for part in path.split("."):
                held = getattr(held, part)
            self.found[name] = held
        return self.found[name]

    def _main(self) -> Any:
        if _MAIN not in sys.modules:
            module = type(sys)(_MAIN)
            sys.modules[_MAIN] = module
            _tasks.is_importing_main = True
            try:
                if self.kind == "module":
                    found = runpy.run_module(self.main, run_name=_MAIN, alter_sys=True)
                else:
                    found = runpy.run_path(self.main, run_name=_MAIN)
                module.__dict__.update(found)
            except BaseException as error:
                del sys.modules[_MAIN]
                if not isinstance(error, (Exception, SystemExit)):
                    raise
                raise ImportError(
                    f"a worker cannot import the main program: {type(error).__name__}: {error}; "
                    'what it runs belongs below `if __name__ == "__main__":`'
                ) from error
            finally:
                _tasks.is_importing_main = False
        return sys.modules[_MAIN]


def run(functions: Functions, request: Message) -> tuple[int, dict[str, Any]]:
    """Runs a task. Its values and arrays, or its exception; and whether its arrays arrived."""
    try:
        views = [array.numpy() for array in _bodies.whole(request)]
    except Exception as error:
        return _tasks.REFUSED, failure(error)
    try:
        task = _tasks.read(request)
        function = functions.get(task["f"])
        args, kwargs = _tasks.arguments(function, task, views)
        del views
        return _tasks.DONE, {"v": function(*args, **kwargs)}
    except Exception as error:
        return _tasks.DONE, failure(error)


def failure(error: Exception) -> dict[str, Any]:
    """An exception as a result."""
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    return {"e": [name, str(error), "".join(traceback.format_exception(error))]}


def short(failed: dict[str, Any]) -> bytes:
    """The bytes of a failure, cut to what a link takes."""
    length = _FAILURE_MAX
    while True:
        data = _tasks.write({"e": [text[:length] for text in failed["e"]]})
        if len(data) <= _FAILURE_MAX:
            return data
        length //= 2


def outgoing(endpoint: Any, to: int, results: list[Any]) -> tuple[dict[str, Any], list[Array]]:
    """The result with its arrays in blocks. Those that came with the request are not copied.

    Takes the result out of its list, so that no reference to a view stays behind.
    """
    views: list[Any] = []
    result = _tasks.without_arrays(results.pop(), views)
    arrays = []
    while views:
        view = views.pop(0)
        if isinstance(view, Array):
            arrays.append(view)
            continue
        plain_dtype(view.dtype)
        block = block_under(view)
        start = None if block is None else Array(block, view.dtype, (0,)).numpy().ctypes.data
        if block is None or start != view.ctypes.data or not view.flags.c_contiguous:
            arrays.append(_bodies.copied(endpoint, to, view))
            continue
        array = Array(block, view.dtype, view.shape)
        del view
        # A view elsewhere would still write the block.
        if block.exports:
            array = _bodies.copied(endpoint, to, array.numpy())
        arrays.append(array)
    return result, arrays


def start() -> None:
    """Serves the parent until one of the two ends."""
    # The parent decides what Ctrl-C means. SIGINT was blocked until here. A handler, unlike
    # SIG_IGN, is not inherited by the programs that a task starts.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    vm, parent, pipe, kind, main = sys.argv[1:]
    del sys.argv[1:]
    token = follow(int(pipe))
    serve(Node().vm(vm).bind(), int(parent), token, Functions(kind, main))


def follow(pipe: int) -> bytes:
    """Lets the kernel kill this process when the parent ends. Returns the token in the pipe.

    A thread could not do it: a function in C may keep the interpreter lock for ever.
    """
    os.set_inheritable(pipe, False)
    token = os.read(pipe, 4096)
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | fcntl.FASYNC)
    poll = select.poll()
    poll.register(pipe, 0)
    if not token or poll.poll(0):  # it ended before
        os._exit(0)
    return token


def serve(endpoint: Any, boss: int, token: bytes, functions: Functions) -> None:
    """Runs the tasks of the parent."""
    endpoint.call(boss, token, type=_tasks.HELLO, timeout=60)
    while True:
        try:
            request = endpoint.receive(boss)
        except (Died, Unbound):  # the pool was closed, or its process ended
            return
        if not request.is_request:
            continue
        m_type, result = run(functions, request)
        results = [result]
        del result
        to = request.source
        del request
        try:
            answer(endpoint, to, results, m_type)
        except Exception as error:
            # Without an answer the pool would wait for ever: if this fails too, the worker ends.
            answer_short(endpoint, to, short(failure(error)))


def answer(endpoint: Any, to: int, results: list[Any], m_type: int) -> None:
    """Sends the result with its arrays."""
    try:
        result, arrays = outgoing(endpoint, to, results)
        data, inline, given = _bodies.with_arrays(endpoint, to, arrays, _tasks.write(result))
    except Exception as error:
        failed = _tasks.write(failure(error))
        data, inline, given = _bodies.with_arrays(endpoint, to, [], failed)
    delivered = False
    try:
        delivered = endpoint._reply(to, data, m_type, inline)
    finally:
        if not delivered:  # the pool may have given the task up
            _bodies.take_back(endpoint, given)


def answer_short(endpoint: Any, to: int, failed: bytes) -> None:
    """Sends a failure that needs no memory beside the link."""
    data, inline, _ = _bodies.with_arrays(endpoint, to, [], failed)
    endpoint._reply(to, data, _tasks.DONE, inline)
