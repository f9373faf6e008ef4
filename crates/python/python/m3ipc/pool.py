"""A pool of worker processes that get and return numpy arrays without a copy.

    from m3ipc import Pool

    def total(a):
        return float(a.sum())

    if __name__ == "__main__":
        with Pool(2) as pool:
            a = pool.array(12_500_000)      # 100 MB in shared memory
            a[:] = 1.0
            print(pool.submit(total, a).result())

The worker owns the array from then on. It frees it, or returns it: a result that is the array
itself comes back without a copy too. Other numpy arrays are copied once.

A worker that ends while it has a task makes the exception `WorkerDied`, and another one is
started. A task that no worker had taken is repeated, unless its array was lost with the worker.
"""
from __future__ import annotations

import collections
import itertools
import os
import selectors
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

from . import _bodies, _tasks
from ._native import Node, Pending, Vm
from .arrays import Array
from .errors import Died, Error, NotTaken, Unbound, WorkerDied

# How often the dispatcher looks at workers that have not called yet, in seconds.
_LOOK = 0.2
# Workers that end before their first call, one after the other, before the pool gives up.
_STARTS_MAX = 3
# How long a worker whose endpoint is gone may take to end by itself, in seconds.
_END = 1.0
# Messages of one round. A peer that sends without end must not keep the lock.
_ROUND = 128

_numbers = itertools.count()
# The pools of this process that share a VM of their own: a process has one VM.
_sharing = 0


class TaskFailed(Error):
    """The function of a task raised an exception. `type_name` and `traceback` are the worker's."""

    type_name: str = ""
    traceback: str = ""


class _Task:
    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.future: Future[Any] = Future()
        self.function = function
        self.arrays: list[Any] = []
        self.sources: list[Any] = []
        values = {"a": list(args), "k": kwargs}
        self.rest = _tasks.write(
            {"f": _tasks.name_of(function), **_tasks.without_arrays(values, self.arrays)}
        )


class _Worker:
    def __init__(self, number: int, process: subprocess.Popen[bytes]) -> None:
        self.number, self.process = number, process
        self.address: int | None = None
        self.task: _Task | None = None
        self.pending: Pending | None = None
        self.given: list[Any] = []


class Pool:
    """A pool of worker processes. See the head of the module."""

    def __init__(
        self, workers: int | None = None, *, vm: Vm | None = None, node: Node | None = None
    ) -> None:
        self._node = node or Node()
        self._is_sharing = vm is None
        self._vm = vm or self._share_vm()
        self._endpoint = self._vm.bind()
        self._lock = threading.RLock()  # of the endpoint and of all below
        self._queue: collections.deque[_Task] = collections.deque()
        self._workers: list[_Worker] = []
        self._ended = 0
        self._closing = False
        self._broken: BaseException | None = None
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for _ in range(workers or os.cpu_count() or 1):
            self._start_worker()
        self._thread = threading.Thread(target=self._dispatch, name="m3ipc-pool", daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, _end, [w.process for w in self._workers])

    def _share_vm(self) -> Vm:
        global _sharing
        _sharing += 1
        return self._node.open_vm(f"pool{os.getpid()}", life="creator", grace=1)

    def array(self, shape: int | tuple[int, ...], dtype: Any = None) -> Array:
        """An array in shared memory, to be handed to a worker without a copy."""
        with self._lock:
            return _bodies.new_array(self._endpoint, shape, dtype, None)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Runs a function in a worker. Its arguments are plain values, dataclasses and arrays."""
        task = _Task(function, args, kwargs)
        with self._lock:
            if self._closing or self._broken:
                raise Unbound("the pool is closed; make another one") from self._broken
            task.sources = task.arrays
            task.arrays = [
                array if isinstance(array, Array) else _bodies.copied(self._endpoint, None, array)
                for array in task.arrays
            ]
            for array in task.arrays:
                if array.block.exports or not array.is_held:
                    array.block.release()  # raises the exception that says why
                    raise BufferError("the array was given away; its new owner has the memory")
            self._queue.append(task)
            self._wake()
        return task.future

    def map(self, function: Callable[..., Any], *iterables: Iterable[Any]) -> Iterator[Any]:
        """The results for each set of arguments, in their order."""
        futures = [self.submit(function, *args) for args in zip(*iterables)]
        return (future.result() for future in futures)

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        with self._lock:
            return [worker.process.pid for worker in self._workers]

    def close(self) -> None:
        """Ends the workers. Tasks that have not ended get `WorkerDied` or are cancelled."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._wake()
        self._thread.join()
        os.close(self._wake_read)
        os.close(self._wake_write)
        self._endpoint.close()
        self._finalizer()
        if self._is_sharing:
            global _sharing
            _sharing -= 1
            if _sharing == 0:
                self._node.end_vm(self._vm)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The rest runs in the thread of the dispatcher, or with the lock.

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"x")
        except BlockingIOError:
            pass  # it is awake already

    def _start_worker(self) -> None:
        number = next(_numbers)
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        words = [sys.executable, "-m", "m3ipc._worker", self._vm.name]
        words += [str(self._endpoint.address), str(number)]
        words += [os.path.abspath(main)] if main else []
        environment = os.environ | {"M3_RUNTIME_DIR": self._node.directory}
        environment["PYTHONPATH"] = os.pathsep.join(part or os.getcwd() for part in sys.path)
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, env=environment)
        self._workers.append(_Worker(number, process))
        if hasattr(self, "_finalizer"):
            self._finalizer.detach()
            self._finalizer = weakref.finalize(self, _end, [w.process for w in self._workers])

    def _dispatch(self) -> None:
        with selectors.DefaultSelector() as selector:
            with self._lock:
                selector.register(self._endpoint.fileno(), selectors.EVENT_READ)
            selector.register(self._wake_read, selectors.EVENT_READ)
            try:
                while not self._closing:
                    with self._lock:
                        self._step()
                        is_starting = any(w.address is None for w in self._workers)
                    selector.select(_LOOK if is_starting else None)
                    try:
                        os.read(self._wake_read, 4096)
                    except BlockingIOError:
                        pass
            except BaseException as error:
                self._broken = error
            self._fail_all()

    def _step(self) -> None:
        """Does all that is possible now."""
        for worker in list(self._workers):
            if worker.pending is not None:
                self._poll(worker)
        for _ in range(_ROUND):
            try:
                message = self._endpoint.try_receive()
            except Unbound:
                raise
            except Error:  # one message or one peer failed
                continue
            if message is None:
                break
            if message.died is not None:
                self._note_death(message.died)
            elif message.is_request and message.type == _tasks.HELLO:
                self._admit(message)
        for worker in list(self._workers):
            if worker.address is None and worker.process.poll() is not None:
                self._replace(worker)
        for worker in list(self._workers):
            if not self._queue:
                break
            if worker.address is not None and worker.task is None:
                self._begin(worker, self._queue.popleft())

    def _admit(self, message: Any) -> None:
        for worker in self._workers:
            if worker.address is None and str(worker.number).encode() == message.data:
                try:
                    self._endpoint.watch(message.source)
                    message.reply()
                except Error:  # it ended, or waits no longer: its process will end
                    return
                worker.address = message.source
                self._ended = 0

    def _note_death(self, address: int) -> None:
        for worker in list(self._workers):
            if worker.address == address and worker.task is None:
                self._replace(worker)

    def _replace(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        _exit_code(worker.process)
        if self._closing:
            return
        if worker.address is None:
            self._ended += 1
            if self._ended >= _STARTS_MAX:
                code = worker.process.returncode
                text = f"{_STARTS_MAX} workers ended at their start, with exit code {code}"
                raise WorkerDied(text)
        self._start_worker()

    def _begin(self, worker: _Worker, task: _Task) -> None:
        if worker.task is None and not task.future.running():
            if not task.future.set_running_or_notify_cancel():
                return
        assert worker.address is not None
        worker.task = task
        try:
            data, inline, worker.given = _bodies.with_arrays(
                self._endpoint, worker.address, task.arrays, task.rest
            )
            worker.pending = self._endpoint._begin(worker.address, data, _tasks.TASK, inline)
        except Exception as error:
            self._failed(worker, error)
            return
        self._poll(worker)

    def _poll(self, worker: _Worker) -> None:
        task, pending = worker.task, worker.pending
        if task is None or pending is None:
            return
        try:
            answer = self._endpoint._poll(pending)
        except Error as error:
            self._failed(worker, error)
            return
        if answer is not None:
            worker.task = worker.pending = None
            worker.given = []
            _finish(task, answer)

    def _failed(self, worker: _Worker, error: Exception) -> None:
        """The request ended with an error: its worker died, or it could not be sent."""
        task = worker.task
        assert task is not None
        worker.task = worker.pending = None
        _bodies.take_back(self._endpoint, worker.given)
        worker.given = []
        is_dead = isinstance(error, Died) or worker.process.poll() is not None
        if isinstance(error, NotTaken) and is_dead and self._restore(task):
            self._queue.appendleft(task)
        elif is_dead:
            code = _exit_code(worker.process)
            died = WorkerDied(f"worker {worker.process.pid} ended with {code} during the task")
            died.code, died.peer, died.exitcode = getattr(error, "code", 0), worker.address, code
            task.future.set_exception(died)
        else:
            task.future.set_exception(error)
        if is_dead:
            self._replace(worker)

    def _restore(self, task: _Task) -> bool:
        """Copies the numpy arrays again that went with a dead worker. False if one was no copy."""
        for index, source in enumerate(task.sources):
            if not task.arrays[index].is_held:
                if isinstance(source, Array):
                    return False
                task.arrays[index] = _bodies.copied(self._endpoint, None, source)
        return True

    def _fail_all(self) -> None:
        with self._lock:
            running = [worker.task for worker in self._workers if worker.task is not None]
            for worker in self._workers:
                worker.task = worker.pending = None
            for task in running:
                task.future.set_exception(self._broken or WorkerDied("the pool was closed"))
            while self._queue:
                task = self._queue.popleft()
                if self._broken is None:
                    task.future.cancel()
                else:
                    task.future.set_exception(self._broken)


def _finish(task: _Task, answer: Any) -> None:
    """Gives the result of a task to its future."""
    try:
        arrays = _bodies.whole(answer)
        result = _tasks.read(answer)
        if "e" in result:
            name, text, trace = result["e"]
            failed = TaskFailed(f"{name}: {text}\n\n{trace}")
            failed.type_name, failed.traceback = name, trace
            raise failed
        value = _tasks.with_arrays(result["v"], arrays)
        value = _tasks.annotated(value, _tasks.hints_of(task.function).get("return"))
    except Exception as error:
        task.future.set_exception(error)
    else:
        task.future.set_result(value)


def _exit_code(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a worker whose endpoint is gone. One that goes on is killed."""
    try:
        return process.wait(_END)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.kill()
    for process in processes:
        process.wait()
