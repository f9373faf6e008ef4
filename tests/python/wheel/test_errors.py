"""Each cause of a failure is an exception of its own, and the text says what to do next."""
import os
import signal
import subprocess
import threading
import time

import m3ipc
import pytest


def test_the_hierarchy():
    assert issubclass(m3ipc.DiedBefore, m3ipc.NotTaken)
    assert issubclass(m3ipc.DiedAfter, m3ipc.OutcomeUnknown)
    assert not issubclass(m3ipc.DiedAfter, m3ipc.NotTaken)
    for builtin, ours in [(TimeoutError, m3ipc.TimedOut), (PermissionError, m3ipc.Refused),
                          (ConnectionError, m3ipc.DaemonGone), (LookupError, m3ipc.NotFound),
                          (ConnectionError, m3ipc.Unreachable)]:
        assert issubclass(ours, builtin) and issubclass(ours, m3ipc.Error)


def test_nobody_is_there(pair):
    server, client = pair
    gone = server.address
    server.close()
    for to in (gone, client.address, 200_000_000):
        with pytest.raises(m3ipc.NotTaken) as error:
            client.call(to)
        assert error.value.code < 0 and error.value.peer == to
        assert str(error.value)


@pytest.mark.parametrize("takes", [False, True])
def test_kill_of_a_server(program, bind, takes):
    client = bind()
    server = program(f"""
        me = vm.bind(name="victim")
        if {takes}:
            me.receive()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(100)
    """)
    to = client.locate("victim")
    if not takes:
        threading.Timer(1, lambda: server.send_signal(signal.SIGKILL)).start()
    with pytest.raises(m3ipc.DiedAfter if takes else m3ipc.DiedBefore) as error:
        client.call(to, b"x")
    assert error.value.code == (-108 if takes else -109) and error.value.taken is takes
    assert "endpoint" in str(error.value)


@pytest.mark.parametrize("takes", [False, True])
def test_a_time_limit_tells_whether_the_request_was_taken(pair, takes):
    server, client = pair
    thread = threading.Thread(target=lambda: takes and server.receive(timeout=30))
    thread.start()
    limit = 0.01
    while True:
        with pytest.raises(m3ipc.CallTimedOut) as error:
            client.call(server.address, timeout=limit)
        # On a busy machine the server may come too late to take it.
        if error.value.taken is takes:
            break
        assert takes
        limit *= 2
    thread.join()
    with pytest.raises(m3ipc.TimedOut) as error:
        client.send(server.address, b"x", timeout=0.01)
    assert error.value.taken is False


def test_a_circle_of_waits(pair):
    server, client = pair
    ends = []

    def call(endpoint, to):
        with pytest.raises(m3ipc.Error) as error:
            endpoint.call(to, timeout=3)
        ends.append(type(error.value))

    thread = threading.Thread(target=call, args=(server, client.address))
    thread.start()
    call(client, server.address)
    thread.join()
    # The one that closes the circle learns of it. The other waits for an endpoint that works.
    assert m3ipc.Deadlock in ends, ends


def test_an_answer_that_nobody_awaits(pair):
    server, client = pair
    client.notify(server.address)
    server.receive(timeout=30)
    for body in [b"x", bytearray(b"x"), None, bytes(100_000)]:
        assert server.reply(client.address, body) is False


def test_a_server_outlives_the_clients_that_give_up(pair):
    server, client = pair
    replied = []

    def serve():
        for request in server:
            if request.type == 99:
                return
            if request.type == 1:
                gave_up.wait(30)
            replied.append(request.reply(request.data))

    gave_up = threading.Event()
    thread = threading.Thread(target=serve)
    thread.start()
    with pytest.raises(m3ipc.TimedOut):
        client.call(server.address, b"x", type=1, timeout=0.05)
    gave_up.set()
    assert client.call(server.address, b"y", timeout=30).data == b"y"
    client.send(server.address, type=99, timeout=30)
    thread.join()
    assert replied == [False, True]


def test_a_block_that_nobody_awaits_stays_with_the_server(pair):
    server, client = pair
    client.notify(server.address)
    server.receive(timeout=30)
    array = server.array((1_000_000,))
    array[:] = 3.0
    assert server.reply(client.address, array) is False
    assert array[999_999] == 3.0


def test_a_vm_that_is_not_there(node):
    with pytest.raises(m3ipc.NotFound) as error:
        node.vm("nowhere")
    assert "nowhere" in str(error.value)
    with pytest.raises(ValueError, match="life"):
        node.open_vm("x", life="forever")


def test_a_fork_is_refused(pair, node):
    server, client = pair
    array = client.array(4)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        for step in (lambda: client.call(server.address), lambda: client.close(),
                     lambda: node.vms(), lambda: array.numpy(), server.try_receive):
            try:
                step()
                said.append("no error")
            except m3ipc.Forked:
                said.append("Forked")
            except BaseException as error:
                said.append(repr(error))
        os.write(write, ",".join(said).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 1000).decode() == ",".join(["Forked"] * 5)
    os.close(read)
    os.close(write)
    client.notify(server.address)
    assert server.receive(timeout=30).is_notification, "the parent goes on"


def test_a_child_by_fork_binds_its_own(pair, vm):
    server, client = pair
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with vm.bind() as own:
                own.call(server.address, b"child")
                code = 0
        finally:
            os._exit(code)
    message = server.receive(timeout=30)
    assert message.data == b"child" and message.source != client.address
    message.reply()
    assert os.waitpid(child, 0)[1] == 0


def test_a_killed_daemon_is_replaced(program, bind, node):
    server, client = bind(), bind()
    with open(os.path.join(node.directory, "lock"), encoding="ascii") as lock:
        daemon = int(lock.read().split()[0])
    client.notify(server.address)
    server.receive(timeout=30)
    os.kill(daemon, signal.SIGKILL)
    thread = threading.Thread(target=lambda: server.receive(timeout=30).reply(b"alive"))
    thread.start()
    assert client.call(server.address, timeout=30).data == b"alive"
    thread.join()
    time.sleep(1.5)  # a waiting endpoint looks for its daemon once a second
    with pytest.raises(m3ipc.TimedOut):
        server.receive(timeout=1.5)
    new = bind()
    new.notify(server.address)
    assert server.receive(timeout=30).source == new.address
    assert client.is_bound and server.is_bound


def test_ctrl_c_ends_a_wait(program):
    for step in ("me.receive()", "me.call(other.address)", "me.locate('nobody')"):
        process = program(f"""
            me, other = vm.bind(), vm.bind()
            try:
                print("ready", flush=True)
                {step}
            except KeyboardInterrupt:
                print("interrupted", flush=True)
        """, stdout=subprocess.PIPE)
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0] == "interrupted\n"


def test_a_handler_without_an_exception_lets_the_wait_go_on(program):
    process = program("""
        import threading
        me, other = vm.bind(), vm.bind()
        ran = []
        signal.signal(signal.SIGALRM, lambda *_: ran.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        def serve():
            request = other.receive()
            time.sleep(0.3)
            request.reply(b"done")
        threading.Thread(target=serve).start()
        print(me.call(other.address).data, len(ran) > 2)
    """, stdout=subprocess.PIPE)
    assert process.communicate(timeout=30)[0] == "b'done' True\n"


def test_a_signal_that_another_thread_gets_is_answered(program):
    process = program("""
        import threading
        me = vm.bind()
        # The kernel gives the signal to this thread: the main thread blocks it.
        threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            print("ready", flush=True)
            me.receive()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0] == "interrupted\n"


def test_an_exception_of_a_handler_is_not_lost_with_an_answer(program):
    process = program("""
        import threading
        me, other = vm.bind(), vm.bind()
        answered = threading.Event()
        def serve():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            request = other.receive()
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            alarmed.wait()
            request.reply(b"after all")
            answered.set()
        alarmed = threading.Event()
        def handle(*_):
            alarmed.set()
            answered.wait()
            raise RuntimeError("from the handler")
        signal.signal(signal.SIGALRM, handle)
        threading.Thread(target=serve).start()
        try:
            print(me.call(other.address).data)
        except RuntimeError as error:
            print(error)
    """, stdout=subprocess.PIPE)
    assert process.communicate(timeout=30)[0] == "from the handler\n"


def test_an_endpoint_in_a_call_of_another_thread_is_bound(pair):
    server, client = pair
    waiting = threading.Thread(target=server.receive)
    waiting.start()
    time.sleep(0.2)  # until the thread has the endpoint
    assert server.is_bound
    client.notify(server.address)
    waiting.join()
    assert server.is_bound
