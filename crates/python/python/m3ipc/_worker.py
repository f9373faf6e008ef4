"""The program of a pool's worker: `python -m m3ipc._worker VM PARENT NUMBER [MAIN]`.

It runs the functions that its parent names, in modules that it imports itself, and takes requests
of its parent alone. The VM ends with the parent, and the worker with the VM.
"""
from __future__ import annotations

import importlib
import runpy
import sys
import traceback
from typing import Any

from . import Node, _bodies, _tasks
from ._native import Message
from .arrays import Array, block_under
from .errors import Died, NotWaiting, Unbound

# The name under which the parent's main program is imported, so that its guard does not run it.
_MAIN = "__m3ipc_main__"
# Bytes of a failure that the link takes without memory beside it.
_FAILURE_MAX = 1_700


class Functions:
    """The functions that tasks name."""

    def __init__(self, main: str | None) -> None:
        self.main = main
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
            if self.main is None:
                raise ImportError("the parent's main program is no file; put the function in one")
            module = type(sys)(_MAIN)
            sys.modules[_MAIN] = module
            module.__dict__.update(runpy.run_path(self.main, run_name=_MAIN))
        return sys.modules[_MAIN]


def run(functions: Functions, request: Message) -> dict[str, Any]:
    """Runs a task. Its values and arrays, or its exception."""
    try:
        views = [array.numpy() for array in _bodies.whole(request)]
        task = _tasks.read(request)
        function = functions.get(task["f"])
        args, kwargs = _tasks.arguments(function, task, views)
        del views
        return {"v": function(*args, **kwargs)}
    except Exception as error:
        return failure(error)


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


def outgoing(endpoint: Any, results: list[Any]) -> tuple[dict[str, Any], list[Array]]:
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
        block = block_under(view)
        start = None if block is None else Array(block, view.dtype, (0,)).numpy().ctypes.data
        if block is None or start != view.ctypes.data or not view.flags.c_contiguous:
            arrays.append(_bodies.copied(endpoint, None, view))
            continue
        array = Array(block, view.dtype, view.shape)
        del view
        # A view elsewhere would still write the block.
        if block.exports:
            array = _bodies.copied(endpoint, None, array.numpy())
        arrays.append(array)
    return result, arrays


def main(vm: str, parent: str, number: str, program: str | None = None) -> None:
    """Serves the parent until the VM ends."""
    functions, boss = Functions(program), int(parent)
    endpoint = Node().vm(vm).bind()
    endpoint.call(boss, number.encode(), type=_tasks.HELLO, timeout=60)
    while True:
        try:
            request = endpoint.receive(boss)
        except (Died, Unbound):  # the pool was closed, or its process ended
            return
        if not request.is_request:
            continue
        results = [run(functions, request)]
        to = request.source
        del request
        try:
            answer(endpoint, to, results)
        except NotWaiting:  # the pool gave the task up
            pass
        except Exception as error:
            # Without an answer the pool would wait for ever: if this fails too, the worker ends.
            answer_short(endpoint, to, short(failure(error)))


def answer(endpoint: Any, to: int, results: list[Any]) -> None:
    """Sends the result with its arrays."""
    try:
        result, arrays = outgoing(endpoint, results)
        data, inline, given = _bodies.with_arrays(endpoint, to, arrays, _tasks.write(result))
    except Exception as error:
        failed = _tasks.write(failure(error))
        data, inline, given = _bodies.with_arrays(endpoint, to, [], failed)
    try:
        endpoint._reply(to, data, _tasks.DONE, inline)
    except BaseException:
        _bodies.take_back(endpoint, given)
        raise


def answer_short(endpoint: Any, to: int, failed: bytes) -> None:
    """Sends a failure that needs no memory beside the link."""
    data, inline, _ = _bodies.with_arrays(endpoint, to, [], failed)
    try:
        endpoint._reply(to, data, _tasks.DONE, inline)
    except NotWaiting:
        pass


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
