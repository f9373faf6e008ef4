"""The pool: arrays without a copy, errors, deaths of workers, and no process left behind."""
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import CancelledError
from types import SimpleNamespace

import m3ipc
import numpy as np
import pytest
import work
from m3ipc import Pool


@pytest.fixture
def pool(vm, node):
    with Pool(2, vm=vm, node=node) as made:
        yield made
        pids = made.pids
    for pid in pids:
        assert not os.path.exists(f"/proc/{pid}"), "a worker was left behind"


def test_an_array_goes_and_comes_back_without_a_copy(pool):
    array = pool.array((200, 300), "f4")
    array[:] = 4.0
    address = array.numpy().ctypes.data
    back = pool.submit(work.doubled, array).result()
    assert back.numpy().ctypes.data == address
    assert back.shape == (200, 300) and (back.numpy() == 8.0).all()
    assert not array.is_held
    assert pool.submit(work.total, back).result() == 480_000.0


def test_a_result_that_the_worker_keeps_is_copied(vm, node):
    with Pool(1, vm=vm, node=node) as pool:
        array = pool.array(40_000)
        array[:] = 1.0
        address = array.numpy().ctypes.data
        back = pool.submit(work.keeps, array).result()
        assert back.numpy().ctypes.data != address
        back[:] = 100.0
        assert pool.submit(work.kept_total, 0).result() == 39_999.0


def test_a_view_prevents_the_hand_over(pool):
    array = pool.array(4)
    view = array.numpy()
    with pytest.raises(BufferError, match="view"):
        pool.submit(work.total, array)
    del view
    array[:] = 1.0
    assert pool.submit(work.total, array).result() == 4.0
    with pytest.raises(BufferError, match="given away"):
        pool.submit(work.total, array).result()


def test_values_and_annotations(pool):
    assert pool.submit(work.move, work.Point(1, 2), (3, 4)).result() == work.Point(4, 6)
    result = pool.submit(work.parts, 3, data=b"\x00\xff").result()
    assert (result["rows"][0].numpy() == 2.0).all() and result["rows"][1] == b"\x00\xff"
    assert result["pid"] in pool.pids
    assert list(pool.map(work.total, [np.ones(n) for n in range(6)])) == [0, 1, 2, 3, 4, 5]


def test_what_cannot_be_sent_is_refused(pool):
    for wrong in (object(), {1: 2}, {"$a": 0}, {1, 2}):
        with pytest.raises(TypeError):
            pool.submit(work.total, wrong)
    with pytest.raises(TypeError, match="name"):
        pool.submit(lambda: 1)


def test_an_exception_of_the_function(pool):
    with pytest.raises(m3ipc.TaskFailed) as error:
        pool.submit(work.fails, "a reason").result()
    assert error.value.type_name == "builtins.ValueError"
    assert "a reason" in str(error.value) and "work.py" in error.value.traceback
    with pytest.raises(m3ipc.TaskFailed, match="nothing is pickled"):
        pool.submit(work.no_value).result()
    assert pool.submit(work.total, np.ones(2)).result() == 2.0


def test_the_end_of_a_worker_is_an_exception(pool):
    for kind in (3, -9):
        task = pool.submit(work.dies, 3) if kind == 3 else pool.submit(work.sleeps, 100)
        if kind == -9:
            while not task.running():
                time.sleep(0.01)
            time.sleep(0.2)
            for pid in pool.pids:
                os.kill(pid, signal.SIGKILL)
        with pytest.raises(m3ipc.WorkerDied) as error:
            task.result()
        assert error.value.exitcode == kind
        assert pool.submit(work.total, np.ones(3)).result() == 3.0


CRASHES = """
import os, signal, sys, threading, m3ipc, work
def wait_for_any():
    while True:
        try: os.waitpid(-1, 0)
        except ChildProcessError: pass
if sys.argv[1] == "ignores": signal.signal(signal.SIGCHLD, signal.SIG_IGN)
with m3ipc.Pool(2) as pool:
    if sys.argv[1] == "waits": threading.Thread(target=wait_for_any, daemon=True).start()
    for task, words in (work.dies, [3]), (work.is_killed, []):
        try: pool.submit(task, *words).result()
        except m3ipc.WorkerDied as error: print(error.exitcode, str(error).split(" ended ")[1])
"""


@pytest.mark.parametrize("how", ["ignores", "waits", "asks"])
def test_an_exit_code_that_nobody_could_read_is_unknown(node, how):
    environment = os.environ | {"M3_RUNTIME_DIR": node.directory}
    words = [sys.executable, "-c", CRASHES, how]
    here = os.path.dirname(work.__file__)
    ran = subprocess.run(words, env=environment, cwd=here, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    unknown = "None with an unknown exit code during the task"
    known = [f"{code} with exit code {code} during the task" for code in (3, -9)]
    for line, code in zip(ran.stdout.splitlines(), known, strict=True):
        wanted = {"ignores": [unknown], "waits": [unknown, code], "asks": [code]}[how]
        assert line in wanted, ran.stdout


def test_idle_workers_are_replaced(pool):
    pool.submit(work.total, np.ones(1)).result()
    for _ in range(3):
        for pid in pool.pids:
            os.kill(pid, signal.SIGKILL)
        assert [pool.submit(work.total, np.ones(n)).result() for n in range(4)] == [0, 1, 2, 3]


def test_a_worker_that_is_unbound_before_its_process_has_ended_is_replaced(vm, node):
    with Pool(1, vm=vm, node=node) as pool, vm.bind() as probe:
        for _ in range(4):
            # The end of a process with much memory takes longer than its unbind.
            pool.submit(work.fills, 1 << 30).result()
            worker = pool._workers[0]
            os.kill(worker.process.pid, signal.SIGKILL)
            while probe._identity(worker.address) is not None:
                pass
            assert pool.submit(work.total, np.ones(3)).result() == 3.0


def test_closing_ends_the_tasks(vm, node):
    pool = Pool(1, vm=vm, node=node)
    running, waiting = pool.submit(work.sleeps, 100), pool.submit(work.sleeps, 100)
    while not running.running():
        time.sleep(0.01)
    pool.close()
    pool.close()
    with pytest.raises(m3ipc.WorkerDied):
        running.result()
    with pytest.raises(CancelledError):
        waiting.result()
    with pytest.raises(m3ipc.Unbound):
        pool.submit(work.sleeps, 1)


def test_descriptors_do_not_leak(vm, node):
    def once():
        with Pool(1, vm=vm, node=node) as pool:
            pool.submit(work.total, np.ones(10)).result()

    once()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        once()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_an_answer_that_cannot_be_sent_is_an_exception(pool):
    with pytest.raises(m3ipc.TaskFailed, match="is not an instance of .bytes"):
        pool.submit(work.breaks_replies, 1).result()
    assert pool.submit(work.total, np.ones(2)).result() == 2.0


def test_a_worker_that_can_send_no_answer_ends(pool):
    with pytest.raises(m3ipc.WorkerDied):
        pool.submit(work.breaks_replies, 2).result()
    assert pool.submit(work.total, np.ones(2)).result() == 2.0


def test_a_failure_is_cut_to_what_a_link_takes():
    from m3ipc import _worker

    for text in ("a", "\x00", "\u20ac"):
        data = _worker.short({"e": ["Name", text * 5_000, text * 5_000]})
        assert 400 < len(data) <= 1_700


def test_a_worker_that_lost_its_endpoint_is_killed(pool):
    with pytest.raises(m3ipc.WorkerDied) as error:
        pool.submit(work.loses_its_endpoint).result()
    assert error.value.exitcode == -9
    assert pool.submit(work.total, np.ones(2)).result() == 2.0


def test_a_worker_that_ends_while_it_is_admitted_breaks_nothing(pool):
    pool.submit(work.total, np.ones(1)).result()

    def fails():
        raise m3ipc.DiedBefore("it ended")

    with pool._lock:
        worker = next(worker for worker in pool._workers if worker.address is not None)
        address, worker.address = worker.address, None
        for reply in [fails, lambda: False]:
            hello = SimpleNamespace(source=address, data=worker.process.token.encode(), reply=reply)
            pool._admit(hello)
            assert worker.address is None
        worker.address = address
    assert pool.submit(work.total, np.ones(2)).result() == 2.0


def test_a_result_that_views_its_argument_by_another_type_is_an_exception(pool):
    with pytest.raises(m3ipc.TaskFailed, match="no plain bytes"):
        pool.submit(work.as_pairs, pool.array(20_000)).result()


def test_a_pool_that_cannot_be_made_leaves_nothing(node):
    def once():
        with pytest.raises(FileNotFoundError):
            Pool(1, node=node, executable="/missing")

    once()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        once()
    assert len(os.listdir("/proc/self/fd")) <= before
    assert m3ipc.pool._sharing == 0
    with pytest.raises(m3ipc.NotFound):
        node.vm(f"pool{os.getpid()}")


def test_a_child_by_fork_during_a_start_keeps_no_worker_alive(vm, node, monkeypatch):
    started, closed, popen, close = [], [], subprocess.Popen, os.close

    def ends_of_the_pipe(number):
        pipe = os.readlink(f"/proc/self/fd/{number}")
        paths = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return sum(os.path.islink(path) and os.readlink(path) == pipe for path in paths)

    def forks(*words, **options):
        if "pass_fds" not in options:
            return popen(*words, **options)
        child = os.fork()
        if child == 0:
            code = 100
            try:
                code = ends_of_the_pipe(options["pass_fds"][0])
            finally:
                os._exit(code)
        started.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return popen(*words, **options)

    def closes(number):
        closed.append(number in pool._processes._lifelines)
        close(number)

    monkeypatch.setattr(subprocess, "Popen", forks)
    pool = Pool(1, vm=vm, node=node)
    assert started == [1], "the end for reading alone"
    monkeypatch.setattr(os, "close", closes)
    pool.close()
    assert closed and not any(closed), "a child would close the number of another descriptor"
