"""Endpoints that move to another node, and programs that wait for their places."""
import signal
import subprocess
import threading
import time

import m3ipc
import pytest
from nodes import Nodes

SLOT = 10


@pytest.fixture
def nodes(tmp_path):
    made = Nodes(tmp_path)
    yield made
    made.end()


def line(process):
    return process.stdout.readline().rstrip("\n")


# A client of alpha, which says the answer to each word of its input.
CLIENT = """
    me = vm.bind(1)
    for word in sys.stdin:
        word = word.strip().encode()
        while True:
            try:
                me.wait_bind(10, timeout=5)
                print(me.call(10, word, timeout=20).data.decode(), flush=True)
                break
            except m3ipc.NotTaken:
                time.sleep(0.02)
"""


def ask(client, word):
    client.stdin.write(word + "\n")
    client.stdin.flush()
    return line(client)


def test_an_endpoint_moves_to_a_backup_and_back(nodes):
    home = nodes.start("beta", """
        me, other = vm.bind(10), vm.bind()
        serve(me, b"home")
        # The object has ended, and nothing else of the process has.
        try:
            me.receive()
        except m3ipc.Unbound as error:
            print(me.is_bound, error.code, other.is_bound)
        with vm.bind() as third:
            third.notify(other.address)
            print(other.receive(timeout=30).source == third.address)
        with vm.bind_backup(10) as again:
            print(again.address == me.address)
            me.close()
            serve(again, b"home again")
    """)
    away = nodes.start("alpha", """
        own = vm.bind()
        with vm.bind_backup(10, timeout=60) as me:
            serve(me, b"away")
            print(me.is_bound, own.is_bound)
        sys.stdin.read()
    """)
    client = nodes.start("alpha", CLIENT)
    assert ask(client, "who") == "home"
    assert ask(client, "move") == "home"
    assert line(home) == "moved"
    assert line(home) == "False -310 True"
    assert line(home) == "True"
    assert ask(client, "who") == "away"
    assert ask(client, "move") == "away"
    assert (line(away), line(away)) == ("moved", "False True")
    assert line(home) == "True"
    assert ask(client, "who") == "home again"


def test_a_backup_takes_the_place_of_a_node_that_ends(nodes):
    home = nodes.start("beta", """
        me = vm.bind(10)
        print("bound")
        serve(me, b"home")
    """)
    client = nodes.start("alpha", CLIENT)
    assert line(home) == "bound"
    assert ask(client, "who") == "home"
    backup = nodes.start("alpha", """
        try:
            vm.bind_backup(10, timeout=0)
        except m3ipc.TimedOut as error:
            print(error.code)
        me = vm.bind_backup(10)
        print("bound", me.address)
        serve(me, b"backup")
    """)
    assert line(backup) == "-61"
    nodes.proxies["beta"].terminate()
    assert line(backup) == "bound 10"
    assert ask(client, "who") == "backup"


def test_a_move_that_fails_leaves_the_endpoint_where_it_is(nodes):
    program = nodes.start("beta", """
        def tell(step):
            try:
                step()
            except m3ipc.Error as error:
                names = [type(error).__name__, error.code, isinstance(error, m3ipc.NotMoved)]
                print(*names, me.is_bound)
        me, other = vm.bind(10), vm.bind(11)
        # Until the proxy has told the slots.
        while True:
            try:
                other.migrate()
            except m3ipc.NotMoved as error:
                if error.code == -316:
                    break
                time.sleep(0.02)
        tell(other.migrate)
        tell(lambda: vm.bind_backup(30))
        sys.stdin.readline()
        tell(lambda: me.migrate(timeout=0.05))
        try:
            print("waits")
            me.migrate()
        except KeyboardInterrupt:
            print("interrupted", me.is_bound)
        tell(me.migrate)
    """)
    assert line(program) == "NotMoved -316 True True"
    assert line(program) == "InUse -308 False True"
    nodes.proxies["beta"].send_signal(signal.SIGSTOP)
    program.stdin.write("go\n")
    program.stdin.flush()
    assert line(program) == "MoveTimedOut -61 True True"
    assert line(program) == "waits"
    time.sleep(0.2)
    program.send_signal(signal.SIGINT)
    assert line(program) == "interrupted True"
    # The proxy has three seconds.
    assert line(program) == "NotMoved -64 True True"


def test_a_node_without_a_proxy_moves_nothing(pair):
    server, client = pair
    with pytest.raises(m3ipc.NotMoved, match="no proxy") as error:
        server.migrate()
    assert error.value.code == -307 and not isinstance(error.value, m3ipc.NotTaken)
    client.notify(server.address)
    assert server.is_bound and server.receive(timeout=30).source == client.address
    with pytest.raises(ValueError, match="at least 0"):
        server.migrate(timeout=-1)
    server.close()
    with pytest.raises(m3ipc.Unbound):
        server.migrate()


def test_a_backup_waits_while_no_proxy_runs(vm):
    for limit in (0, 0.02):
        with pytest.raises(TimeoutError) as error:
            vm.bind_backup(30, timeout=limit)
        assert error.value.code == -61
    with pytest.raises(m3ipc.BadValue):
        vm.bind_backup(1_000_000)


def test_other_threads_use_the_package_while_a_backup_waits(vm):
    ends = []

    def wait():
        try:
            vm.bind_backup(30, timeout=0.5)
        except m3ipc.TimedOut as error:
            ends.append(error.code)

    waits = [threading.Thread(target=wait) for _ in range(2)]
    for thread in waits:
        thread.start()
    while any(thread.is_alive() for thread in waits):
        with vm.bind() as server, vm.bind() as client:
            client.notify(server.address)
            assert server.receive(timeout=30).is_notification
    assert ends == [-61, -61]


@pytest.mark.parametrize("step", ["vm.bind_backup(30)", "vm.bind().wait_bind(35)"])
def test_ctrl_c_ends_the_wait(program, step):
    process = program(f"""
        ran = []
        signal.signal(signal.SIGALRM, lambda *_: ran.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        try:
            print("ready", flush=True)
            {step}
        except KeyboardInterrupt:
            print("interrupted", len(ran) > 2, flush=True)
    """, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0] == "interrupted True\n"


def test_a_signal_that_another_thread_gets_ends_the_wait_of_a_backup(program):
    process = program("""
        import threading
        # The kernel gives the signal to this thread: the main thread blocks it.
        threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            print("ready", flush=True)
            vm.bind_backup(30)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0] == "interrupted\n"


@pytest.mark.parametrize("slot", [29, 40])
def test_the_first_endpoint_of_a_process_leaves_the_slot_that_is_asked_for(program, slot):
    process = program(f"""
        with vm.bind({slot}) as me:
            print(me.is_bound)
    """, stdout=subprocess.PIPE)
    assert process.communicate(timeout=30)[0] == "True\n"


def test_the_codes_of_moves_and_unknown_outcomes():
    for op, code, kinds in [("call", -332, (m3ipc.NotTaken,)), ("move", -64, (m3ipc.NotMoved,)),
                            ("call", -501, (m3ipc.OutcomeUnknown,)),
                            ("move", -501, (m3ipc.OutcomeUnknown,)),
                            ("move", -310, (m3ipc.Unbound,)),
                            ("move", -61, (m3ipc.NotMoved, TimeoutError))]:
        error = m3ipc.errors._make(op, code, "text", None)
        assert all(isinstance(error, kind) for kind in kinds), (op, code, type(error))
        assert not isinstance(error, m3ipc.NotMoved) or op == "move" and code > -310 or code == -316
