"""Arrays and blocks: no copy, one owner, and no trust in the list of a peer."""
import gc
import json
import os
import struct
import threading

import m3ipc
import numpy as np
import pytest


def echo(message):
    message.reply(message.array)


def test_an_array_goes_and_comes_back_without_a_copy(serving):
    to, client = serving(echo)
    array = client.array((3, 5), "int32", to=to)
    array[:] = np.arange(15).reshape(3, 5)
    address = array.numpy().ctypes.data
    back = client.call(to, array).array
    assert back.numpy().ctypes.data == address, "the same memory"
    assert back.shape == (3, 5) and back.dtype == np.int32
    assert (back.numpy() == np.arange(15).reshape(3, 5)).all()
    assert not array.is_held and "given away" in repr(array)


@pytest.mark.parametrize("dtype", ["?", "i1", "<f8", ">f4", "c16", "S5", "U3", "M8[ns]", "f2"])
def test_types(serving, dtype):
    to, client = serving(echo)
    array = client.array(4, dtype)
    array.numpy()[...] = np.zeros(4, dtype)
    assert client.call(to, array).array.dtype == np.dtype(dtype)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (2, 0, 4)])
def test_odd_shapes(serving, shape):
    to, client = serving(echo)
    assert client.call(to, client.array(shape)).array.shape == shape


@pytest.mark.parametrize("dtype", [object, [("a", "i4")], "V8,O"])
def test_values_that_are_no_plain_bytes_are_refused(bind, dtype):
    with pytest.raises(TypeError):
        bind().array(4, dtype)


def test_a_view_prevents_the_hand_over(serving):
    to, client = serving(echo)
    array = client.array(10)
    for view in (array.numpy(), memoryview(array.block), array.numpy()[3:5].reshape(2, 1),
                 np.from_dlpack(array)):
        with pytest.raises(BufferError, match="view"):
            client.call(to, array)
        del view
        gc.collect()
    array[:] = 3.0
    assert array.block.exports == 0
    assert client.call(to, array).array[0] == 3.0


def test_memory_that_was_given_away_cannot_be_reached(serving):
    to, client = serving(lambda message: message.reply(b"kept"))
    array = client.array(10)
    block = array.block
    client.call(to, array)
    for step in (array.numpy, lambda: array[0], lambda: memoryview(block), lambda: block.nbytes,
                 lambda: client.call(to, array), lambda: client.give(to, block)):
        with pytest.raises(BufferError, match="given away"):
            step()
    assert repr(block) == "<m3ipc.Block given away>"


def test_an_array_comes_back_if_nobody_takes_it(pair):
    server, client = pair
    array = client.array(10)
    array[:] = 7.0
    with pytest.raises(m3ipc.CallTimedOut):
        client.call(server.address, array, timeout=0.05)
    assert array.is_held and array[3] == 7.0
    with pytest.raises(m3ipc.NotTaken):
        client.send(server.address, array, timeout=0)
    with pytest.raises(m3ipc.NotTaken):
        client.call(200_000_000, array)
    assert array.is_held and array[3] == 7.0


def test_several_arrays_and_numpy_arrays_in_one_message(serving):
    to, client = serving(lambda message: message.reply(list(message.arrays)))
    own = client.array(3)
    own[:] = 1.0
    answer = client.call(to, [own, np.arange(4), np.eye(2)[:, ::-1]])
    shapes = [array.shape for array in answer.arrays]
    assert shapes == [(3,), (4,), (2, 2)]
    assert (answer.arrays[2].numpy() == np.eye(2)[:, ::-1]).all()
    with pytest.raises(TypeError, match="3 arrays"):
        answer.array


def test_a_list_with_one_array_twice_gives_none(pair):
    server, client = pair
    array, other = client.array(3), client.array(3)
    with pytest.raises(BufferError):
        client.call(server.address, [other, array, array])
    assert array.is_held and other.is_held


def test_an_array_keeps_its_memory_after_its_endpoint(pair):
    server, client = pair
    array = client.array(1000)
    array[:] = 5.0
    view = array.numpy()
    client.close()
    assert view.sum() == 5000.0
    del array
    gc.collect()
    assert view[999] == 5.0


def test_blocks(serving):
    def answer(message):
        view = memoryview(message.block)
        view[0] = 66
        del view
        message.reply(message.block)

    to, client = serving(answer)
    block = client.block(100)
    memoryview(block)[:5] = b"12345"
    back = client.call(to, block).block
    assert bytes(memoryview(back)[:5]) == b"B2345"
    assert (len(back), back.nbytes, back.readonly, block.is_held) == (100, 100, False, False)
    back.resize(5)
    assert len(back) == 5
    with pytest.raises(ValueError):
        back.resize(10_000_000)
    back.release()
    assert not back.is_held


def test_give_and_accept(pair):
    server, client = pair
    block = client.block(10)
    given = client.give(server.address, block)
    assert len(given.name) == 32
    taken = server.accept(client.address, given.name)
    assert taken.nbytes == 10
    assert client.take_back(given) is None
    second = client.give(server.address, client.block(20))
    assert client.take_back(second).nbytes == 20
    for wrong in (b"", b"x" * 32, given.name):
        with pytest.raises(m3ipc.Error):
            server.accept(client.address, wrong)


@pytest.mark.parametrize("data", [
    b"", b"\xff\xff\xff\xff", b"\x02\x00\x00\x00[]", b"\x02\x00\x00\x00{}",
    b"\x03\x00\x00\x00\xff\xff\xff",
    json.dumps({"a": [["00" * 32, "<f8", [10]]]}).encode(),
    json.dumps({"a": [1]}).encode(), json.dumps({"a": 5}).encode(),
    json.dumps({"a": [["zz", "<f8", [10]]]}).encode(), b"[" * 100_000,
])
def test_a_wrong_list_of_arrays_is_an_error_at_its_use(serving, data):
    seen = []

    def answer(message):
        seen.append(message.arrays)
        message.reply(b"ok")

    to, client = serving(answer)
    if data[:1] in (b"{", b"["):
        data = struct.pack("<I", len(data)) + data
    assert client._call(to, data, 0, 30, b"m3py\x01").data == b"ok", "the server goes on"
    assert all(isinstance(array, m3ipc.Error) for array in seen[0])
    # A frame may have the message, and the collector sees no circle through a message.
    assert all(not (error.__traceback__ or error.__context__) for error in seen[0])
    assert len(seen[0]) == 1


@pytest.mark.parametrize("dtype, shape", [
    ("<f8", [1 << 40]), ("<f8", [-1]), ("|O", [1]), ("<f8", [2.5]), ("<f8", [[1]]),
    ("nonsense", [1]), ("<f8", [1] * 65), ("<f8", [1 << 62, 1 << 62]), (5, [1]), ("<f8", [True]),
    ("S99999999999999999999", [1]), ("i4,i4", [1]), ("(2,)i4", [1]),
])
def test_a_claim_beyond_the_block_is_refused(pair, dtype, shape):
    server, client = pair
    given = client.give(server.address, client.block(64))
    head = json.dumps({"a": [[given.name.hex(), dtype, shape]]}).encode()
    data = struct.pack("<I", len(head)) + head
    thread = threading.Thread(target=lambda: client._send(server.address, data, 0, 30, b"m3py\x01"))
    thread.start()
    message = server.receive(timeout=30)
    thread.join()
    with pytest.raises(m3ipc.PeerBroke):
        message.array


def test_arrays_do_not_leak(serving):
    to, client = serving(lambda message: message.reply(b"%f" % message.array[0]))
    before = len(os.listdir("/proc/self/fd"))
    # More than the area of the endpoint holds at once.
    for number in range(60):
        array = client.array(1 << 20)
        array[0] = number
        assert float(client.call(to, array).data) == number
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 4
