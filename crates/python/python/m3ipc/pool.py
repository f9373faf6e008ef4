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
itself comes back without a copy too. Other numpy arrays are copied once. An array's memory is
shared with one worker alone; where that worker is busy or dead, another one gets a copy.

A worker that ends while it has a task makes the exception `WorkerDied`, and another one is
started. A task that no worker had taken is repeated, unless its array was lost with the worker.
"""
from __future__ import annotations

import collections
import contextlib
import hmac
import itertools
import os
import selectors
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

from . import _bodies, _tasks
from ._native import Node, Pending, Vm
from ._processes import Process, Processes, main_program
from .arrays import Array, plain_dtype
from .errors import Died, DiedAfter, Error, NoSuchPeer, NotTaken, Unbound, WorkerDied, _make

# How often the dispatcher looks at processes, in seconds: at those that have not called yet, and
# at the others. Only a daemon reports the ends of these, and there may be none.
_LOOK, _LOOK_LATER = 0.2, 1.0
# How long the report of a worker's end may take, in seconds.
_REPORT = 3.0
# Workers that end before their first call, one after the other, before the pool gives up.
_STARTS_MAX = 3
# How long a worker whose endpoint is gone may take to end by itself, in seconds.
_END = 1.0
# Messages of one round. A peer that sends without end must not keep the lock.
_ROUND = 128
# How often a task is repeated whose arrays did not arrive.
_REFUSALS_MAX = 3
# Tasks among which a worker looks for one whose arrays it has.
_TASKS_AHEAD = 64

# The pools of this process that share a VM of their own: a process has one VM.
_sharing = 0


class TaskFailed(Error):
    """The function of a task raised an exception. `type_name` and `traceback` are the worker's."""

    type_name: str = ""
    traceback: str = ""


class _Task:
    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.future: Future[Any] = Future()
        self.refusals = 0
        self.function = function
        self.arrays: list[Any] = []
        values = {"a": list(args), "k": kwargs}
        if getattr(function, "__module__", None) == "__main__" and main_program()[0] == "none":
            raise TypeError(
                f"{function!r} is of a main program that is no file, which a worker cannot "
                "import; put the function in a module"
            )
        self.rest = _tasks.write(
            {"f": _tasks.name_of(function), **_tasks.without_arrays(values, self.arrays)}
        )


class _Worker:
    def __init__(self, process: Process) -> None:
        self.process = process
        self.address: int | None = None
        self.task: _Task | None = None
        self.pending: Pending | None = None
        self.given: list[Any] = []
        self.seen_dead: float | None = None


class Pool:
    """A pool of worker processes. See the head of the module.

    The workers run the interpreter of this process, or `executable` where this process is another
    program with Python in it.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        vm: Vm | None = None,
        node: Node | None = None,
        executable: str | os.PathLike[str] | None = None,
    ) -> None:
        if _tasks.is_importing_main:
            raise RuntimeError("the import of the main program makes a pool")
        self._is_forked = False
        self._processes = Processes(executable)
        self._finalizer = weakref.finalize(self, self._processes.end)
        self._node = node or Node()
        self._lock = threading.RLock()  # of the endpoint and of all below
        self._is_admitted = threading.Condition(self._lock)
        self._queue: collections.deque[_Task] = collections.deque()
        self._workers: list[_Worker] = []
        self._open: set[Future[Any]] = set()
        self._turns = itertools.count()
        self._ended = 0
        self._closing = False
        self._broken: BaseException | None = None
        with contextlib.ExitStack() as ends:
            self._vm = vm or self._share_vm(ends)
            self._endpoint = self._vm.bind()
            ends.callback(self._endpoint.close)
            self._own = self._own_identity()
            self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            for descriptor in self._wake_read, self._wake_write:
                ends.callback(os.close, descriptor)
            _pools.add(self)
            # First the workers: none of them is to find the endpoint gone.
            ends.callback(self._finalizer)
            ends.callback(_pools.discard, self)
            for _ in range(workers or os.cpu_count() or 1):
                self._start_worker()
            self._thread = threading.Thread(target=self._dispatch, name="m3ipc-pool", daemon=True)
            self._thread.start()
            self._ends = ends.pop_all()

    def _share_vm(self, ends: contextlib.ExitStack) -> Vm:
        global _sharing
        vm = self._node.open_vm(f"pool{os.getpid()}", life="creator", grace=1)
        _sharing += 1
        ends.callback(self._leave_vm)
        return vm

    def _leave_vm(self) -> None:
        global _sharing
        _sharing -= 1
        if _sharing == 0:
            self._node.end_vm(self._vm)

    def _own_identity(self) -> tuple[int, int] | None:
        """The process and the user of this process, as the daemon sees them."""
        with self._vm.bind() as probe:
            probe.notify(self._endpoint.address)
            self._endpoint.receive(probe.address)
            return self._endpoint._identity(probe.address)

    def _check(self) -> None:
        if self._is_forked:
            raise _forked()

    def array(self, shape: int | tuple[int, ...], dtype: Any = None) -> Array:
        """An array in shared memory, to be handed to a worker without a copy.

        Waits until a worker has started.
        """
        self._check()
        with self._lock:
            while True:
                self._check_open()
                array = self._at_home(
                    lambda home: _bodies.new_array(self._endpoint, shape, dtype, home)
                )
                if array is not None:
                    return array
                self._is_admitted.wait(_LOOK)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Runs a function in a worker. Its arguments are plain values, dataclasses and arrays."""
        self._check()
        task = _Task(function, args, kwargs)
        with self._lock:
            self._check_open()
            task.arrays = [
                array if isinstance(array, Array) else self._copied(array)
                for array in task.arrays
            ]
            for array in task.arrays:
                if isinstance(array, Array) and (array.block.exports or not array.is_held):
                    array.block.release()  # raises the exception that says why
                    raise BufferError("the array was given away; its new owner has the memory")
            self._open.add(task.future)
            task.future.add_done_callback(self._open.discard)
            self._queue.append(task)
            self._wake()
        return task.future

    def map(self, function: Callable[..., Any], *iterables: Iterable[Any]) -> Iterator[Any]:
        """The results for each set of arguments, in their order."""
        futures = [self.submit(function, *args) for args in zip(*iterables)]
        self._check()
        return (future.result() for future in futures)

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        self._check()
        with self._lock:
            return [worker.process.pid for worker in self._workers]

    def close(self) -> None:
        """Ends the workers. Tasks that have not ended get `WorkerDied` or are cancelled."""
        self._check()
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._is_admitted.notify_all()
            self._wake()
        self._thread.join()
        self._ends.close()

    def __enter__(self) -> Pool:
        self._check()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _after_fork(self) -> None:
        """In a child by fork: no method waits for what only the parent can do."""
        self._is_forked = True
        self._finalizer.detach()
        self._processes.after_fork()
        for future in list(self._open):
            future.__init__()  # type: ignore[misc] # the parent's lock may be held here for ever
            future.set_exception(_forked())
        if not self._closing:
            os.close(self._wake_read)
            os.close(self._wake_write)

    # The rest runs in the thread of the dispatcher, or with the lock.

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"x")
        except BlockingIOError:
            pass  # it is awake already

    def _check_open(self) -> None:
        if self._closing or self._broken:
            raise Unbound("the pool is closed; make another one") from self._broken

    def _admitted(self) -> list[int]:
        return [worker.address for worker in self._workers if worker.address is not None]

    def _next_home(self) -> int | None:
        """The worker that is to get the next array. None before the first one is admitted."""
        admitted = self._admitted()
        return admitted[next(self._turns) % len(admitted)] if admitted else None

    def _copied(self, view: Any, home: int | None = None) -> Any:
        """A copy in the memory that is shared with a worker, or beside it before there is one."""
        if home is not None:
            array = _bodies.copied(self._endpoint, home, view)
            array._home = home
            return array
        array = self._at_home(lambda home: _bodies.copied(self._endpoint, home, view))
        if array is None:
            plain_dtype(view.dtype)
            return view.copy()
        return array

    def _at_home(self, make: Callable[[int], Array]) -> Array | None:
        """An array for the next worker that lives. None if none does."""
        for _ in self._admitted():
            home = self._next_home()
            assert home is not None
            try:
                self._endpoint.watch(home)  # an area that is shared with it does not tell
                array = make(home)
            except (Died, NoSuchPeer):  # nobody has noted its end yet
                continue
            array._home = home
            return array
        return None

    def _start_worker(self) -> None:
        process = self._processes.start(
            self._vm.name, self._endpoint.address, self._node.directory
        )
        if process is not None:
            self._workers.append(_Worker(process))

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
                    selector.select(_LOOK if is_starting else _LOOK_LATER)
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
            if worker.process.has_ended():
                self._note_end(worker)
        # First the tasks whose arrays a worker has, then any: others get copies of the arrays.
        for is_any in (False, True):
            for worker in list(self._workers):
                self._feed(worker, is_any)

    def _feed(self, worker: _Worker, is_any: bool) -> None:
        """Gives an idle worker the next task. After a cancelled or failed one it is still idle."""
        while worker in self._workers and worker.address is not None and worker.task is None:
            task = self._take_task(worker.address, is_any)
            if task is None:
                return
            self._begin(worker, task)

    def _take_task(self, address: int, is_any: bool) -> _Task | None:
        for task in itertools.islice(self._queue, _TASKS_AHEAD):
            homes = {getattr(array, "_home", None) for array in task.arrays} - {None}
            if is_any or homes <= {address}:
                self._queue.remove(task)
                return task
        return None

    def _admit(self, message: Any) -> None:
        """Admits the worker that the daemon vouches for: its process, and the user of this one."""
        for worker in self._workers:
            if worker.address is None and self._is_of(message, worker.process):
                try:
                    self._endpoint.watch(message.source)
                    if message.reply() is False:  # it waits no longer: its process will end
                        return
                except Error:
                    return
                worker.address = message.source
                self._ended = 0
                self._is_admitted.notify_all()
                return

    def _is_of(self, message: Any, process: Process) -> bool:
        identity = self._endpoint._identity(message.source)
        if identity is None or self._own is None or identity[1] != self._own[1]:
            return False
        if self._own[0] == os.getpid():
            return identity[0] == process.pid
        # The daemon is in another PID namespace, with other numbers. Only the worker can read this.
        return hmac.compare_digest(message.data, process.token.encode())

    def _note_end(self, worker: _Worker) -> None:
        """The process has ended. A daemon, if one runs, reports whether it had taken its task."""
        now = time.monotonic()
        worker.seen_dead = worker.seen_dead or now
        if worker.address is None or worker.task is None:
            self._replace(worker)
        elif now > worker.seen_dead + _REPORT and worker.pending is not None:
            pending = worker.pending
            self._failed(worker, DiedAfter("nobody reported the end of the worker"))
            try:
                self._endpoint._abandon(pending)
            except Error:  # the endpoint is gone, and the request with it
                pass

    def _note_death(self, address: int) -> None:
        for worker in list(self._workers):
            if worker.address == address and worker.task is None:
                self._replace(worker)

    def _replace(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        code = worker.process.end(_END)
        self._processes.forget(worker.process)
        if self._closing:
            return
        if worker.address is None:
            self._ended += 1
            if self._ended >= _STARTS_MAX:
                text = f"{_STARTS_MAX} workers ended at their start, with {_text(code)}"
                raise WorkerDied(text)
        self._start_worker()

    def _begin(self, worker: _Worker, task: _Task) -> None:
        if worker.task is None and not task.future.running():
            if not task.future.set_running_or_notify_cancel():
                return
        assert worker.address is not None
        worker.task = task
        moved: list[Array] = []
        try:
            for index, array in enumerate(task.arrays):
                if not isinstance(array, Array):
                    task.arrays[index] = self._copied(array, worker.address)
                elif array._home != worker.address and not array.block._is_local:
                    if array.block.exports:
                        array.block.release()  # raises the exception that says why
                    task.arrays[index] = self._copied(array.numpy(), worker.address)
                    moved.append(array)
            data, inline, worker.given = _bodies.with_arrays(
                self._endpoint, worker.address, task.arrays, task.rest
            )
            worker.pending = self._endpoint._begin(worker.address, data, _tasks.TASK, inline)
        except Exception as error:
            self._failed(worker, error)
            return
        for array in moved:
            try:
                array.release()
            except BufferError:  # another thread just made a view, of memory that nobody else has
                pass
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
            given, worker.given = worker.given, []
            if answer.type == _tasks.REFUSED and task.refusals < _REFUSALS_MAX:
                self._send_again(worker, task, given)
            else:
                _finish(task, answer)

    def _send_again(self, worker: _Worker, task: _Task, given: list[Any]) -> None:
        """The worker could not accept the arrays: no new member joins the area of a dead daemon."""
        assert worker.address is not None
        task.refusals += 1
        _bodies.take_back(self._endpoint, given)
        self._endpoint._forget_area(worker.address)
        for array in task.arrays:
            array._home = None  # the next worker gets a copy
        if not self._repeat(task):
            task.future.set_exception(WorkerDied("an array of the task was lost with its area"))

    def _failed(self, worker: _Worker, error: Exception) -> None:
        """The request ended with an error: its worker died, or it could not be sent."""
        task = worker.task
        assert task is not None
        worker.task = worker.pending = None
        _bodies.take_back(self._endpoint, worker.given, getattr(error, "taken", None))
        worker.given = []
        # A killed worker may be unbound before its process can be seen to have ended.
        is_dead = isinstance(error, (Died, NoSuchPeer)) or worker.process.has_ended()
        if isinstance(error, NotTaken) and is_dead and self._repeat(task):
            pass  # it is queued again
        elif is_dead:
            code = worker.process.end(_END)
            text = f"worker {worker.process.pid} ended with {_text(code)} during the task"
            died = WorkerDied(text)
            died.code, died.peer, died.exitcode = getattr(error, "code", 0), worker.address, code
            task.future.set_exception(died)
        else:
            task.future.set_exception(error)
        if is_dead:
            self._replace(worker)

    def _repeat(self, task: _Task) -> bool:
        """Queues the task again. False if an array of it is lost.

        Its caller may have changed a numpy array since the copy, so no other copy is made.
        """
        if any(isinstance(array, Array) and not array.is_held for array in task.arrays):
            return False
        self._queue.appendleft(task)
        return True

    def _fail_all(self) -> None:
        with self._lock:
            self._is_admitted.notify_all()
            futures = [task.future for task in self._queue if not task.future.running()]
            # Those that workers had, also where an exception took the task from its worker.
            futures += [future for future in list(self._open) if future.running()]
            for worker in self._workers:
                worker.task = worker.pending = None
            self._queue.clear()
            for future in futures:
                if self._broken is None:
                    future.cancel()  # does nothing to a task that a worker had
                if future.running() or future.set_running_or_notify_cancel():
                    future.set_exception(self._broken or WorkerDied("the pool was closed"))


def _finish(task: _Task, answer: Any) -> None:
    """Gives the result of a task to its future."""
    try:
        arrays = _bodies.whole(answer)
        for array in arrays:
            array._home = answer.source
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


def _forked() -> Error:
    text = "this pool belongs to the parent process, and a fork shares none; make one in the child"
    return _make("fork", -310, text, None)


def _text(code: int | None) -> str:
    return "an unknown exit code" if code is None else f"exit code {code}"


def _after_fork() -> None:
    global _sharing
    _sharing = 0
    for pool in list(_pools):
        pool._after_fork()
    _pools.clear()


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
os.register_at_fork(after_in_child=_after_fork)
