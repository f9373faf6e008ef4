"""The processes of a pool: how they start, from where they import, and how they end."""
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import m3ipc
import numpy as np
import pytest
from m3ipc import Pool

HEAD = "import collections, itertools, os, signal, sys, threading, time\nimport m3ipc\n"
LIMIT_S = 60


@pytest.fixture
def own_node(tmp_path):
    """A directory for a daemon that the programs of a test start and may kill."""
    directory = tmp_path / "run"
    directory.mkdir(mode=0o700)
    yield directory
    lock = directory / "lock"
    if lock.exists() and lock.read_text().strip():
        try:
            os.kill(int(lock.read_text()), signal.SIGKILL)
        except ProcessLookupError:
            pass


@pytest.fixture
def run(own_node, tmp_path):
    """Runs a program, and returns its output."""
    environment = os.environ | {"M3_RUNTIME_DIR": str(own_node)}

    def run_program(text, *words, flags=(), cwd=None, stdin=None, errors=""):
        if text is not None:
            program = tmp_path / "program.py"
            program.write_text(HEAD + textwrap.dedent(text))
            words = (str(program), *words)
        ran = subprocess.run([sys.executable, *flags, *words], env=environment, cwd=cwd,
                             input=stdin, capture_output=True, text=True, timeout=LIMIT_S)
        assert ran.returncode == 0 and errors in ran.stderr, ran.stdout + ran.stderr
        assert errors or not ran.stderr, ran.stderr
        return ran.stdout

    return run_program


def is_there(pid):
    """Whether a process runs. One that has ended may wait for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(is_true):
    end = time.monotonic() + LIMIT_S
    while not is_true():
        assert time.monotonic() < end, "it never became true"
        time.sleep(0.01)


def test_a_pool_of_the_parent_is_refused_at_once_in_a_child(run):
    assert run("""
        def slow(): time.sleep(0.2)
        if __name__ == "__main__":
            pool = m3ipc.Pool(2)
            pool.submit(slow).result()
            task = pool.submit(time.sleep, 600)
            locked, forked = threading.Event(), threading.Event()
            def holds_the_lock():
                with pool._lock:
                    locked.set()
                    forked.wait()
            uses = [lambda: pool.submit(abs, 1), lambda: pool.pids, lambda: pool.array(10),
                    lambda: pool.array(100_000), lambda: pool.map(abs, [1]), pool.close,
                    pool.__enter__, lambda: pool.__exit__(None, None, None), task.result,
                    task.exception]
            for number, use in enumerate(uses):
                locked.clear(), forked.clear()
                thread = threading.Thread(target=holds_the_lock)
                thread.start()
                locked.wait()
                pid = os.fork()
                if pid == 0:
                    signal.alarm(10)
                    try: os._exit(not isinstance(use(), m3ipc.Forked))
                    except m3ipc.Forked: os._exit(0)
                    finally: os._exit(1)
                forked.set()
                thread.join()
                assert os.waitpid(pid, 0)[1] == 0, number
            pid = os.fork()
            if pid == 0:
                signal.alarm(30)
                with m3ipc.Pool(1) as own: own.submit(slow).result()
                sys.exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            print(pool.submit(abs, -3).result(), len(pool.pids))
            pool.close()
    """) == "3 2\n"


def test_workers_end_with_their_parent_also_without_a_daemon(own_node, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(HEAD + textwrap.dedent("""
        def sleeps(): time.sleep(600)
        def computes(): collections.deque(itertools.repeat(1), maxlen=0)  # keeps the lock
        if __name__ == "__main__":
            pool = m3ipc.Pool(2)
            tasks = [pool.submit(sleeps), pool.submit(computes)]
            while not all(task.running() for task in tasks): time.sleep(0.01)
            if os.fork() == 0: time.sleep(600)  # this one must keep no worker alive
            print(*pool.pids, flush=True)
            time.sleep(600)
    """))
    parent = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True,
                              env=os.environ | {"M3_RUNTIME_DIR": str(own_node)},
                              start_new_session=True)
    try:
        workers = [int(word) for word in parent.stdout.readline().split()]
        assert len(workers) == 2 and all(map(is_there, workers))
        parent.kill()
        os.kill(int((own_node / "lock").read_text()), signal.SIGKILL)
        wait_until(lambda: not any(map(is_there, workers)))
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()
        parent.stdout.close()


def test_a_pool_recovers_from_the_end_of_the_daemon_and_a_worker(run):
    assert run("""
        import numpy as np
        def total(a): return float(a.sum())
        if __name__ == "__main__":
            lock = os.environ["M3_RUNTIME_DIR"] + "/lock"
            with m3ipc.Pool(2) as pool:
                print(pool.submit(total, np.ones(20_000)).result())
                kept = [pool.array(20_000), pool.array(20_000)]
                for array in kept: array[:] = 1.0
                for round in range(3):
                    for pid in [int(open(lock).read()), *pool.pids[:1 + round // 2]]:
                        os.kill(pid, signal.SIGKILL)
                    tasks = [pool.submit(total, np.ones(20_000)) for _ in range(30)]
                    failed = [task for task in tasks if isinstance(task.exception(), m3ipc.Error)]
                    assert len(failed) <= 2, [task.exception() for task in failed]
                    assert {t.result() for t in tasks if t not in failed} == {20_000.0}
                print([pool.submit(total, array).result() for array in kept])
    """) == "20000.0\n[20000.0, 20000.0]\n"


def test_arrays_go_to_the_workers_that_live(vm, node):
    with Pool(2, vm=vm, node=node) as pool:
        assert pool.submit(np.sum, np.ones(20_000)).result() == 20_000
        wait_until(lambda: len(pool._admitted()) == 2)
        with pool._lock:  # the pool notes no end meanwhile
            arrays = [pool.array(20_000) for _ in range(2)]  # each shares an area with its worker
            dead = pool._workers[0]
            os.kill(dead.process.pid, signal.SIGKILL)
            wait_until(lambda: is_dead(pool, dead.address))
            arrays += [pool.array(20_000) for _ in range(4)]
            tasks = [pool.submit(np.sum, np.ones(20_000)) for _ in range(4)]
        assert dead.address not in {array._home for array in arrays[2:]}
        assert [task.result() for task in tasks] == 4 * [20_000]


def is_dead(pool, address):
    try:
        return pool._endpoint.notify(address)
    except m3ipc.NotTaken:
        return True


FLAGS = """
    def flags():
        return [sys.flags.optimize, sys.flags.isolated, sys.flags.safe_path, sys.flags.dev_mode,
                sys.warnoptions, sys.get_int_max_str_digits(), sys.path]
    if __name__ == "__main__":
        sys.path[:] = [os.path.abspath(part) for part in sys.path]
        with m3ipc.Pool(1) as pool: assert pool.submit(flags).result() == flags(), flags()
"""


@pytest.mark.parametrize("flags", [
    ["-O"], ["-I"], ["-P"], ["-E"], ["-Werror"], ["-Xdev", "-Wignore"],
    ["-Xint_max_str_digits=0"], ["-B"],
], ids=" ".join)
def test_workers_have_the_flags_and_the_path_of_their_parent(run, tmp_path, flags):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    for name in ("base64", "json", "m3ipc", "numpy", "selectors", "sitecustomize"):
        (foreign / f"{name}.py").write_text("raise SystemExit('a foreign module was imported')")
    run(FLAGS, flags=flags, cwd=foreign)


def test_functions_of_a_main_module_run(run, tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "numbers.py").write_text("def one(): return 1\n")
    main = HEAD + textwrap.dedent("""
        {}
        def twice(): return 2 * one()
        if __name__ == "__main__":
            with m3ipc.Pool(1) as pool: print(pool.submit(twice).result())
    """)
    (package / "__main__.py").write_text(main.format("from .numbers import one"))
    (tmp_path / "program.py").write_text(main.format("from package.numbers import one"))
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "__main__.py").write_text(main.format("def one(): return 1"))
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
        archive.write(alone / "__main__.py", "__main__.py")
    for words in (["-m", "package"], ["-m", "program"], ["program.py"], ["alone"], ["archive"]):
        assert run(None, *words, cwd=tmp_path) == "2\n", words


def test_a_main_program_that_is_no_file_is_an_error_of_the_caller(run):
    text = HEAD + textwrap.dedent("""
        def one(): return 1
        with m3ipc.Pool(1) as pool:
            print(pool.submit(abs, -5).result())
            try: pool.submit(one)
            except TypeError as error: print(error)
    """)
    for words, stdin in ((["-"], text), (["-c", text], None)):
        out = run(None, *words, stdin=stdin)
        assert out.startswith("5\n") and "put the function in a module" in out


def test_a_main_program_without_a_guard_is_one_error(run):
    out = run("""
        def one(): return 1
        with m3ipc.Pool(1) as pool:
            try: pool.submit(one).result()
            except m3ipc.TaskFailed as error: print(str(error).splitlines()[0])
    """)
    assert out.count("\n") == 1 and 'if __name__ == "__main__"' in out


@pytest.mark.parametrize("value", ["/usr/sbin/uwsgi", "", None])
def test_a_program_that_embeds_python_has_workers(run, value):
    assert run(f"""
        def one(): return 1
        if __name__ == "__main__":
            python, sys.executable = sys.executable, {value!r}
            with m3ipc.Pool(1) as pool: print(pool.submit(one).result())
            sys.exec_prefix = sys.base_exec_prefix = "/nowhere"
            try: m3ipc.Pool(1)
            except m3ipc.NotFound as error: assert "Pool(executable=" in str(error)
            else: raise AssertionError
            with m3ipc.Pool(1, executable=python) as pool: print(pool.submit(one).result())
    """) == "1\n1\n"


@pytest.mark.parametrize("latest_s", [0.3, 1.5])
def test_ctrl_c_to_all_ends_quietly(own_node, tmp_path, latest_s):
    program = tmp_path / "program.py"
    program.write_text(HEAD + textwrap.dedent("""
        def slow(i): time.sleep(0.1)
        if __name__ == "__main__":
            signal.signal(signal.SIGINT, signal.default_int_handler)
            print("ready", flush=True)
            list(m3ipc.Pool(3).map(slow, range(10_000)))
    """))
    environment = os.environ | {"M3_RUNTIME_DIR": str(own_node)}
    m3ipc.Node(own_node)
    for _ in range(5):
        started = subprocess.Popen([sys.executable, program], env=environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)
        assert started.stdout.readline() == "ready\n"
        time.sleep(random.uniform(0, latest_s))
        os.killpg(started.pid, signal.SIGINT)
        errors = started.communicate(timeout=LIMIT_S)[1]
        assert started.returncode == -signal.SIGINT, errors
        assert errors.count("Traceback") <= 1 and "m3ipc.errors" not in errors, errors

        def is_alone():
            try:
                os.killpg(started.pid, 0)
                return False
            except ProcessLookupError:
                return True

        wait_until(is_alone)


@pytest.mark.parametrize("end", [
    "m3ipc.Pool(4).submit(os.getpid).result()",
    "with m3ipc.Pool(4) as pool: pool.submit(os.getpid).result()",
    "pool = m3ipc.Pool(4)",
])
def test_a_normal_end_is_quiet(run, end):
    for _ in range(4):
        run(f"if __name__ == '__main__':\n    {end}\n")


def test_a_task_survives_ctrl_c_that_its_parent_handles(run):
    assert run("""
        def rests():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
            import subprocess  # SIGINT ends the programs of a task as usual
            return subprocess.run(["sh", "-c", "kill -INT $$; exit 5"]).returncode
        if __name__ == "__main__":
            with m3ipc.Pool(1) as pool: print(pool.submit(rests).result())
    """) == "-2\n"


def test_only_the_process_of_a_worker_is_admitted(vm, node, bind):
    with Pool(1, vm=vm, node=node) as pool:
        pool.submit(abs, 1).result()
        stranger = bind()
        stranger.notify(pool._endpoint.address)
        wait_until(lambda: identity_of(pool, stranger.address))
        with pool._lock:
            worker = pool._workers[0]
            address, worker.address = worker.address, None
            for data in (b"0", str(worker.process.pid).encode(), worker.process.token.encode()):
                hello = SimpleNamespace(source=stranger.address, data=data, reply=lambda: None)
                pool._admit(hello)
                assert worker.address is None, data
            pool._admit(SimpleNamespace(source=address, data=b"", reply=lambda: None))
            assert worker.address == address


def identity_of(pool, address):
    with pool._lock:
        return pool._endpoint._identity(address)


def test_the_memory_of_an_array_is_for_its_worker_alone(vm, node, bind):
    stranger = bind()
    with Pool(1, vm=vm, node=node) as pool:
        own = pool.array(20_000)
        result = pool.submit(np.ones, 20_000).result()
        for array in (own, result):
            with pool._lock, pytest.raises(m3ipc.Error):
                given = pool._endpoint.give(stranger.address, array.block)
                stranger.accept(pool._endpoint.address, given.name)


ENDS = {
    "receive": "s = vm.bind()\nf = s.receive",
    "polls": """
        s = vm.bind()
        def f():
            while True:
                try: s.receive(timeout=0.0005)
                except m3ipc.TimedOut: pass
    """,
    "calls": """
        s, c = vm.bind(), vm.bind()
        def serve():
            for r in s: r.reply({"a": r.decode(dict)})
        threading.Thread(target=serve, daemon=True).start()
        def f():
            while True: c.call(s.address, {"x": 1}, returns=dict)
    """,
    "binds": "def f():\n    while True: vm.bind().close()\n",
    "nodes": "def f():\n    while True: m3ipc.Node().vms()\n",
}


@pytest.mark.parametrize("name", ENDS)
def test_daemon_threads_in_a_call_do_not_disturb_the_end(run, name):
    text = "vm = m3ipc.Node().open_vm('ends', life='creator')\n" + textwrap.dedent(ENDS[name])
    text += "\nthreading.Thread(target=f, daemon=True).start()\n"
    for number in range(6):
        run(text + f"time.sleep({0.01 + number * 0.003})\n")
