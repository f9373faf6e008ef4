"""Children by os.fork, beside threads that bind."""
import os
import signal
import threading
import time

# Seconds after which a child counts as hung: far beyond what a busy machine needs.
HUNG_S = 60
FORKS = 40


def ends_well(step):
    """Whether a child by fork ends a step without an exception, and in time."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(HUNG_S)
            step()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def test_children_bind_beside_threads_that_bind(vm):
    stop, errors = threading.Event(), []

    def binds():
        try:
            while not stop.is_set():
                vm.bind().close()
                time.sleep(0.0002)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=binds) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        good = [ends_well(lambda: vm.bind().close()) for _ in range(FORKS)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    # The first endpoint of the process ends and comes anew meanwhile: no bind fails because of it.
    assert errors == [] and all(good)


def test_a_child_looks_at_an_inherited_block(pair):
    _, client = pair
    block = client.block(64)
    view = memoryview(block)

    def step():
        assert block.exports == 0 and not block.is_held and "parent" in repr(block)
        view.release()

    assert ends_well(step)
    assert block.exports >= 1
