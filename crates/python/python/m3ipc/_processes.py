"""The processes of a pool's workers: how one starts, and how all of them end.

A worker imports from where its parent imports, with the flags of the parent's interpreter. It ends
with its parent, however that ends and whether or not a daemon runs: it has the read end of a pipe
whose other end the parent alone holds. At the end of the parent the kernel kills it.
"""
from __future__ import annotations

import os
import secrets
import select
import signal
import subprocess
import sys
import threading
from typing import Any

from .errors import NotFound

# The program of a worker. It sets the path before it imports a module, so that the working
# directory, which `-c` puts first, is not looked at.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[6:]; del sys.argv[6:]; "
    "from m3ipc._worker import start; start()"
)


class Process:
    """The process of a worker, known by its descriptor. A program that ignores SIGCHLD, or waits
    for any child, leaves no exit code to read: `None`. A child by fork has no workers.

    `token` is text that only this worker can read, from its pipe. `lifeline` is the end of the pipe
    whose last holder keeps the worker alive."""

    def __init__(self, popen: subprocess.Popen[bytes], lifeline: int) -> None:
        self.pid = popen.pid
        self.exitcode: int | None = None
        self.token, self.lifeline = secrets.token_hex(16), lifeline
        self._lock = threading.Lock()
        self._popen, self._parent, self._descriptor = popen, os.getpid(), -1
        try:
            self._descriptor = os.pidfd_open(popen.pid)
        except ProcessLookupError:  # it has ended, and the kernel has reaped it
            popen.returncode = 0

    def has_ended(self, timeout: float = 0) -> bool:
        """Whether it has ended, or ends within this time."""
        if self._descriptor < 0 or os.getpid() != self._parent:
            return True
        poller = select.poll()
        poller.register(self._descriptor, select.POLLIN)
        if not poller.poll(timeout * 1000):
            return False
        with self._lock:
            if self._descriptor < 0:  # another thread was quicker
                return True
            try:
                status = os.waitid(os.P_PIDFD, self._descriptor, os.WEXITED)
                if status is not None:
                    is_code = status.si_code == os.CLD_EXITED
                    self.exitcode = status.si_status if is_code else -status.si_status
            except ChildProcessError:  # the kernel or the program has reaped it
                pass
            self._popen.returncode = 0  # so that the object waits for nothing
            os.close(self._descriptor)
            self._descriptor = -1
        return True

    def kill(self) -> None:
        """Kills it."""
        if not self.has_ended():
            try:
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)
            except OSError:  # it has just ended
                pass

    def end(self, timeout: float) -> int | None:
        """Waits for its end, and kills it after that time. Its exit code, or None."""
        if not self.has_ended(timeout):
            self.kill()
            while not self.has_ended(1):
                pass
        return self.exitcode


class Processes:
    """The processes of a pool's workers."""

    def __init__(self, executable: str | os.PathLike[str] | None) -> None:
        self._words = [interpreter(executable), *_flags(), "-c", _PROGRAM]
        self._lock = threading.Lock()
        self._running: list[Process] = []
        self._lifelines: set[int] = set()
        self._is_ended = False
        self._owner = os.getpid()

    def start(self, vm: str, parent: int, directory: str) -> Process | None:
        """Starts a worker. None after the end."""
        words = [*self._words, vm, str(parent)]
        environment = os.environ | {"M3_RUNTIME_DIR": directory}
        with self._lock:
            if self._is_ended:
                return None
            read, write = os.pipe2(os.O_CLOEXEC)
            self._lifelines.add(write)  # a child by fork of another thread closes it
            # Ctrl-C must not find a worker that is not ready for it: see `_worker.start`.
            former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                process = Process(subprocess.Popen(
                    [*words, str(read), *main_program(), *_path()],
                    stdin=subprocess.DEVNULL, env=environment, pass_fds=[read],
                ), write)
                self._running.append(process)
            except BaseException:
                self._close(write)
                raise
            finally:
                os.close(read)
                signal.pthread_sigmask(signal.SIG_SETMASK, former)
            try:
                os.write(write, process.token.encode())
            except BrokenPipeError:
                pass  # it has ended already, as its starter notices
        return process

    def forget(self, process: Process) -> None:
        """Forgets a process that has ended."""
        with self._lock:
            if process in self._running:
                self._running.remove(process)
                self._close(process.lifeline)

    def end(self) -> None:
        """Ends all processes, and starts no other."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            self._is_ended = True
            for process in self._running:
                process.kill()
            for process in self._running:
                process.end(0)
                self._close(process.lifeline)
            self._running.clear()

    def _close(self, lifeline: int) -> None:
        self._lifelines.remove(lifeline)  # first: its number may soon be another descriptor's
        os.close(lifeline)

    def after_fork(self) -> None:
        """In a child by fork: the workers are the parent's, and must end with it alone."""
        for lifeline in self._lifelines:
            os.close(lifeline)
        self._lifelines = set()
        self._running = []


def interpreter(asked: str | os.PathLike[str] | None) -> str:
    """The program that runs Python here. It need not be this program, which may embed Python."""
    if asked is not None:
        return os.fspath(asked)
    own = sys.executable or ""
    names = [os.path.basename(own), os.path.basename(os.path.realpath(own))] if own else []
    if not getattr(sys, "frozen", False) and any(
        name.startswith(("python", "pypy")) for name in names
    ):
        return own
    # Only of the same version: the worker imports the same files.
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for prefix in (sys.exec_prefix, sys.base_exec_prefix):
        found = os.path.join(prefix, "bin", name)
        if os.access(found, os.X_OK):
            return found
    raise NotFound(
        f"the program {own!r} is no Python interpreter, and {sys.exec_prefix}/bin has no {name} "
        "to start workers with; name one: Pool(executable=\"/usr/bin/python3\")"
    )


def _flags() -> list[str]:
    """The flags of this interpreter as words of a command line, as multiprocessing has them."""
    words: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    for name, value in sys._xoptions.items():
        words += ["-X", name if value is True else f"{name}={value}"]
    return words


def _path() -> list[str]:
    """The places from which this process imports."""
    return [os.path.abspath(part) for part in sys.path if isinstance(part, str)]


def main_program() -> tuple[str, str]:
    """How a worker imports the main program: as a module, from a file, or not at all."""
    main: Any = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != "__main__":
        return "module", spec.name
    path = getattr(main, "__file__", None)
    if path is not None:
        path = os.path.abspath(path)
        if spec is not None:  # a directory or an archive
            path = os.path.dirname(path)
        if os.path.exists(path):
            return "file", path
    return "none", ""
