"""Bytes, types, names, notifications, watches, time limits and threads."""
import contextlib
import os
import subprocess
import threading
import time
from dataclasses import dataclass

import m3ipc
import pytest


@dataclass
class Add:
    a: int
    b: int


@dataclass
class Sum:
    value: int


@pytest.mark.parametrize("length", [0, 1, 40, 48, 1792, 1793, 100_000, 8 << 20])
def test_bytes_of_any_length_arrive_whole(serving, length):
    to, client = serving(lambda message: message.reply(message.data, type=message.type + 1))
    data = os.urandom(length)
    answer = client.call(to, data, type=7)
    assert (answer.data == data, answer.type, answer.source) == (True, 8, to)
    assert not answer.is_request


def test_forty_bytes_go_inside_the_message(serving):
    to, client = serving(lambda message: message.reply(type=2, inline=message.inline[::-1]))
    answer = client.call(to, inline=b"abc")
    assert (answer.inline, answer.data, answer.type) == (bytes(37) + b"cba", b"", 2)
    with pytest.raises(ValueError, match="40 bytes"):
        client.call(to, inline=bytes(41))
    with pytest.raises(ValueError, match="alone"):
        client.call(to, Add(1, 2), inline=b"x")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_each_buffer_of_bytes_is_sent_as_bytes(serving, kind):
    to, client = serving(lambda message: message.reply(message.data))
    assert client.call(to, kind(b"some bytes")).data == b"some bytes"


def test_a_body_that_is_too_large_is_an_error(pair):
    server, client = pair
    with pytest.raises(m3ipc.TooLong) as error:
        client.call(server.address, bytes(m3ipc.MAX_BYTES + 1))
    assert error.value.code == -73
    assert server.try_receive() is None


def test_a_server_with_little_memory_outlives_a_long_request(pair, program):
    _, client = pair
    server = program("""
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (512 << 20,) * 2)
        own = vm.bind(receive_limit=1 << 20)
        print(own.address, flush=True)
        for request in own: request.reply(request.data)
    """, stdout=subprocess.PIPE)
    to = int(server.stdout.readline())
    with memory_group(server.pid):
        for ask in (client.send, client.call):
            with pytest.raises(m3ipc.TooLong, match=f"{900 << 20} bytes.*{1 << 20}") as error:
                ask(to, bytes(900 << 20))
            assert error.value.code == -73
        assert client.call(to, bytes(300_000), timeout=60).data == bytes(300_000)
        assert server.poll() is None
        server.kill(), server.wait()


@contextlib.contextmanager
def memory_group(pid):
    """A cgroup with 256 MiB for a process, which has ended at the end."""
    kinds = ("memory/", "memory.limit_in_bytes"), ("", "memory.max")
    for path, limit in kinds:
        group = f"/sys/fs/cgroup/{path}m3-python-{pid}"
        try:
            os.mkdir(group)
            for name, text in (limit, str(256 << 20)), ("cgroup.procs", str(pid)):
                with open(f"{group}/{name}", "r+") as file:
                    file.write(text)
            break
        except OSError:
            if os.path.isdir(group):
                os.rmdir(group)
    else:
        print("SKIP: no cgroup: this user cannot make one with memory")
        group = None
    yield
    while group and os.path.isdir(group):
        with contextlib.suppress(OSError):  # until the kernel has seen the end
            os.rmdir(group)


def test_a_body_above_the_limit_of_its_receiver_is_an_error_of_its_sender(vm, pair):
    server, client = pair
    assert server.receive_limit == 16 << 20
    for nbytes in (900 << 20, (16 << 20) + 1):
        with pytest.raises(m3ipc.TooLong, match=f"{nbytes} bytes.*16777216") as error:
            client.call(server.address, bytes(nbytes))
        assert (error.value.code, error.value.peer) == (-73, server.address)
    server.receive_limit = 4096
    with pytest.raises(m3ipc.TooLong, match="4096"):
        client.send(server.address, bytes(5000))
    assert server.try_receive() is None, "the receiver sees nothing"
    client.receive_limit = 1
    assert client.receive_limit == 1792, "what lies in a link always fits"
    assert vm.bind(receive_limit=1 << 20).receive_limit == 1 << 20, "from the first message on"

    def serve():
        request = server.receive(timeout=20)
        with pytest.raises(m3ipc.TooLong):
            request.reply(bytes(2000))
        request.reply(request.data)

    thread = threading.Thread(target=serve)
    thread.start()
    assert client.call(server.address, b"goes on", timeout=20).data == b"goes on"
    thread.join()


def test_text_is_refused(pair):
    server, client = pair
    with pytest.raises(TypeError, match="encode"):
        client.call(server.address, "text")


def test_typed_messages(serving):
    def answer(message):
        add = message.decode(Add)
        message.reply(Sum(add.a + add.b))

    to, client = serving(answer)
    assert client.call(to, Add(2, 40), returns=Sum) == Sum(42)
    assert client.call(to, Add(2, 40)).decode(Sum) == Sum(42)


def test_bytes_of_another_type_are_no_value(serving):
    to, client = serving(lambda message: message.reply(b'{"value": "x"}'))
    with pytest.raises(m3ipc.DecodeError):
        client.call(to, returns=Sum)


def test_send_and_receive_from_one_endpoint(pair):
    server, client = pair
    thread = threading.Thread(target=lambda: client.send(server.address, b"data", type=3))
    thread.start()
    message = server.receive(client.address, timeout=30)
    thread.join()
    assert (message.data, message.type, message.source) == (b"data", 3, client.address)
    with pytest.raises(TypeError, match="no request"):
        message.reply()


@pytest.mark.parametrize("length", [0, 40, 1792, 1793, 100_000])
def test_reply_receive_answers_and_takes_the_next_request(pair, length):
    server, client = pair
    data = os.urandom(length)

    def serve():
        request = server.receive()
        while request.type != 99:
            answer = request.data[::-1]
            request = server.reply_receive(request.source, answer, type=request.type + 1)

    thread = threading.Thread(target=serve)
    thread.start()
    for number in range(3):
        answer = client.call(server.address, data, type=number)
        assert (answer.data == data[::-1], answer.type) == (True, number + 1)
    client.send(server.address, type=99)
    thread.join()


def test_an_exception_of_reply_receive_says_which_half_it_is_of(pair):
    server, client = pair
    for body in [b"bytes", bytearray(b"buffer")]:
        client.notify(server.address)
        # A client that does not wait is no error: the next message comes.
        assert server.reply_receive(client.address, body, timeout=5).is_notification
        with pytest.raises(m3ipc.TimedOut) as late:
            server.reply_receive(client.address, body, timeout=0.01)
        assert late.value.answered is False
    client.notify(server.address)
    with pytest.raises(ValueError, match="40 bytes") as wrong:
        server.reply_receive(client.address, inline=bytes(41))
    assert wrong.value.answered is False
    assert server.receive(timeout=5).is_notification, "what waited is still there"
    for body in [b"bytes", bytearray(b"bytes")]:
        answers = []
        thread = threading.Thread(
            target=lambda: answers.append(client.call(server.address, timeout=20).data)
        )
        thread.start()
        request = server.receive(timeout=20)
        with pytest.raises(m3ipc.TimedOut) as error:
            server.reply_receive(request.source, body, timeout=0.01)
        thread.join()
        assert (error.value.answered, answers) == (True, [b"bytes"])


def test_notifications_that_were_not_taken_are_one(pair):
    server, client = pair
    client.notify(server.address)
    client.notify(server.address)
    message = server.receive(timeout=30)
    assert (message.is_notification, message.source, message.data) == (True, client.address, b"")
    assert server.try_receive() is None


def test_a_watched_end_is_a_message(bind):
    server, client = bind(), bind()
    server.watch(client.address)
    client.close()
    message = server.receive(timeout=30)
    assert message.died == client.address
    assert "death" in repr(message)


def test_names(bind):
    server, client = bind("stock"), bind()
    assert client.locate("stock") == server.address
    assert client.locate("stock", timeout=0) == server.address
    with pytest.raises(m3ipc.NotFound):
        client.locate("nobody", timeout=0)
    with pytest.raises(m3ipc.TimedOut):
        client.locate("nobody", timeout=0.01)
    with pytest.raises(m3ipc.InUse):
        client.name_attach("stock")


def test_time_limits_are_seconds(pair):
    server, client = pair
    began = time.monotonic()
    with pytest.raises(TimeoutError) as error:
        client.call(server.address, b"x", timeout=0.05)
    assert time.monotonic() - began >= 0.05
    assert isinstance(error.value, m3ipc.OutcomeUnknown)
    assert server.try_receive() is None, "the request was withdrawn"
    with pytest.raises(m3ipc.WouldBlock):
        server.receive(timeout=0)
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            server.receive(timeout=wrong)


def test_a_wait_lets_other_threads_run(pair):
    server, client = pair
    ran = threading.Event()
    threading.Timer(0.05, ran.set).start()
    with pytest.raises(m3ipc.TimedOut):
        server.receive(timeout=0.3)
    assert ran.is_set()


def test_one_thread_at_a_time_uses_an_endpoint(pair):
    server, client = pair
    begun = threading.Event()

    def receive():
        begun.set()
        server.receive()

    thread = threading.Thread(target=receive)
    thread.start()
    begun.wait()
    time.sleep(0.2)  # until the thread has the endpoint
    with pytest.raises(m3ipc.Busy, match="another thread"):
        server.receive(timeout=1)
    client.notify(server.address)
    thread.join()


def test_threads_with_endpoints_of_their_own(bind, serving):
    to, _ = serving(lambda message: message.reply(message.data))
    wrong = []

    def work(endpoint):
        for number in range(200):
            if endpoint.call(to, b"%d" % number).data != b"%d" % number:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(bind(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_end_of_one_endpoint_ends_no_other(bind):
    first, second, third = bind(), bind(), bind()
    first.close()
    second.notify(third.address)
    assert third.receive(timeout=30).is_notification
    assert second.is_bound and not first.is_bound


def test_a_closed_endpoint_says_so(pair):
    server, client = pair
    server.close()
    server.close()
    with pytest.raises(m3ipc.Unbound, match="closed"):
        server.receive()


def test_descriptors_do_not_leak(vm):
    vm.bind().close()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with vm.bind() as one, vm.bind() as other:
            one.notify(other.address)
            other.receive(timeout=30)
            one.fileno()
    assert len(os.listdir("/proc/self/fd")) <= before
