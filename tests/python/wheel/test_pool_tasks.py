"""The tasks of a pool: each future ends, and the function is the submitted one."""
import os
import signal
import time
from concurrent.futures import CancelledError

import m3ipc
import numpy as np
import pytest
import work
from m3ipc import Pool, _tasks

# A test that fails ends here, before the watchdog ends all tests.
LIMIT_S = 60


@pytest.fixture
def pool(vm, node):
    with Pool(1, vm=vm, node=node) as made:
        yield made


def test_a_task_that_is_queued_again_ends_with_the_pool(vm, node):
    pool = Pool(1, vm=vm, node=node)
    assert pool.submit(work.total, np.ones(2)).result() == 2.0
    pool._admit = lambda message: None  # the next worker gets no task
    pid = pool.pids[0]
    os.kill(pid, signal.SIGSTOP)
    task = pool.submit(work.total, np.ones(3))
    while not task.running():
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    while not pool._queue:
        time.sleep(0.01)
    waiting = pool.submit(work.total, np.ones(1))
    pool.close()
    with pytest.raises(m3ipc.WorkerDied, match="closed"):
        task.result(LIMIT_S)
    with pytest.raises(CancelledError):
        waiting.result(LIMIT_S)


def test_a_cancelled_task_does_not_keep_the_others_of_a_broken_pool(vm, node):
    with Pool(1, vm=vm, node=node, executable="/bin/false") as pool:
        with pool._lock:
            first, *others = [pool.submit(work.total, np.ones(1)) for _ in range(3)]
            assert first.cancel()
        for task in others:
            with pytest.raises(m3ipc.WorkerDied, match="at their start"):
                task.result(LIMIT_S)


def test_a_task_from_before_the_first_worker_is_repeated(pool):
    copied, at_home = pool._copied, pool._at_home

    def fails_once(view, home=None):
        pool._copied = copied
        raise m3ipc.NoSuchPeer("the worker ended")

    with pool._lock:
        pool._at_home = lambda make: None
        task = pool.submit(work.total, np.ones(3))
        pool._copied, pool._at_home = fails_once, at_home
    assert task.result(LIMIT_S) == 3.0


def test_a_task_whose_copy_of_an_array_is_lost_is_not_repeated(pool):
    array = np.ones(2)
    assert pool.submit(work.total, array).result(LIMIT_S) == 2.0
    with pool._lock:
        future = pool.submit(work.total, array)
        task = pool._queue.pop()
        task.arrays[0].release()
        array[:] = 5.0  # the task is of the array as it was
        is_repeated = pool._repeat(task)
    assert not is_repeated and not pool._queue
    future.cancel()
    assert pool.submit(work.total, array).result(LIMIT_S) == 10.0


def test_cancelled_tasks_do_not_delay_the_next(pool):
    rounds, seen, step = [], [], pool._step

    def counted():
        rounds.append(None)
        step()

    first = pool.submit(work.sleeps, 0.5)
    first.add_done_callback(lambda _: seen.append(len(rounds)))
    with pool._lock:
        pool._step = counted
        for _ in range(100):
            assert pool.submit(work.sleeps, 100).cancel()
        live = pool.submit(work.total, np.ones(2))
        live.add_done_callback(lambda _: seen.append(len(rounds)))
    assert live.result() == 2.0
    # Two cancelled tasks a round were 50 rounds, each with a sleep.
    assert seen[1] - seen[0] < 20


@pytest.mark.parametrize("function", [work.wrapped_total, work.Derived.name, work.Base().method])
def test_a_function_whose_name_leads_to_another_is_refused(pool, function):
    with pytest.raises(TypeError, match="submit a plain function"):
        pool.submit(function, np.ones(2))


def test_functions_of_classes_and_built_in_ones_run(pool):
    for function, arguments, result in [
        (work.Base.name, (), "Base"), (work.Derived.three, (), 3), (work.Point, (1, 2), None),
        (abs, (-5,), 5), (np.sum, (np.ones(3),), 3.0), (time.sleep, (0,), None),
    ]:
        if result is None:
            assert _tasks.name_of(function)
        else:
            assert pool.submit(function, *arguments).result(LIMIT_S) == result


def test_each_argument_has_the_annotation_of_its_parameter(pool):
    point, job = work.Point(1, 2), work.Job(b"")
    task = pool.submit(work.kinds, point, point, point, point, last=job, first=job)
    assert task.result(LIMIT_S) == ["Point"] * 4 + ["Job"] * 2


def test_bytes_go_and_come_back_by_annotation(pool):
    for job in work.Job(b"\x00\xff"), work.Job(b"", b"YWJj"), work.Job(b"YWJj", "YWJj"):
        assert pool.submit(work.same_job, job).result(LIMIT_S) == job
    pair = pool.submit(work.bytes_and_length, b"\x00\xff").result(LIMIT_S)
    assert pair == (b"\x00\xff", 2) and isinstance(pair, tuple)


def test_dataclasses_inside_an_annotation_are_made(pool):
    one, two = work.Point(1, 2), work.Point(3, 4)
    marked = work.Marked(two, np.ones(3))
    task = pool.submit(work.inner, [one, two], {"one": one}, None, marked)
    assert task.result(LIMIT_S) == [one, two, one, None, two]


def test_a_dataclass_that_cannot_be_made_is_an_exception(pool):
    with pytest.raises(m3ipc.TaskFailed, match="no form in JSON"):
        pool.submit(work.odd, work.Odd("/tmp")).result(LIMIT_S)
