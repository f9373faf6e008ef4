"""Bodies of messages beside plain bytes: typed values, arrays, blocks.

A message with arrays has this mark in the 40 bytes inside the message. The bytes beside it are a
length of 4 bytes, that many bytes of JSON, and the bytes of the typed value:

    {"a": [[NAME, TYPE, SHAPE], ...]}      NAME: the block's name in hexadecimal digits

The arrays are given before the message goes out, and accepted when it is taken. If nobody takes
the message, they come back.
"""
from __future__ import annotations

import json
import struct
from typing import Any

from . import arrays
from ._native import Block, Given
from .arrays import Array
from .codec import JSON, Codec
from .errors import Error, PeerBroke

MARK = b"m3py\x01"
_LENGTH = struct.Struct("<I")
ARRAYS_MAX = 1024

_Given = list[tuple[Given, Array]]


def encode(endpoint: Any, to: int, body: Any, codec: Codec | None) -> tuple[bytes, bytes, _Given]:
    """The bytes beside the message, those inside, and the arrays that were given."""
    if body is None:
        return b"", b"", []
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body), b"", []
    if isinstance(body, str):
        raise TypeError("text has no bytes of its own; send text.encode()")
    listed = as_arrays(endpoint, to, body)
    if listed is None:
        return (codec or JSON).encode(body), b"", []
    return with_arrays(endpoint, to, listed, b"")


def as_arrays(endpoint: Any, to: int, body: Any) -> list[Array] | None:
    """The arrays that the body is, if it is one or a list of them."""
    if isinstance(body, Array):
        return [body]
    if type(body).__module__ == "numpy" and type(body).__name__ == "ndarray":
        return [copied(endpoint, to, body)]
    if isinstance(body, (list, tuple)) and body and all(_is_array(item) for item in body):
        return [item if isinstance(item, Array) else copied(endpoint, to, item) for item in body]
    return None


def _is_array(item: Any) -> bool:
    is_numpy = type(item).__module__ == "numpy" and type(item).__name__ == "ndarray"
    return isinstance(item, Array) or is_numpy


def copied(endpoint: Any, to: int | None, view: Any) -> Array:
    """A copy of a numpy array in a new block."""
    array = new_array(endpoint, view.shape, view.dtype, to)
    array[...] = view
    return array


def new_array(endpoint: Any, shape: Any, dtype: Any, to: int | None) -> Array:
    """An array in a new block of the endpoint."""
    found = arrays.plain_dtype(dtype)
    lengths = (int(shape),) if isinstance(shape, int) else tuple(int(length) for length in shape)
    if any(length < 0 for length in lengths):
        raise ValueError(f"a bad shape: {lengths}")
    nbytes = found.itemsize
    for length in lengths:
        nbytes *= length
    block = endpoint.block(max(nbytes, 1), to=to)
    return Array(block, found, lengths)


def with_arrays(
    endpoint: Any, to: int, listed: list[Array], rest: bytes
) -> tuple[bytes, bytes, _Given]:
    """Gives the arrays, and makes the message that names them."""
    if len(listed) > ARRAYS_MAX:
        raise ValueError(f"a message has at most {ARRAYS_MAX} arrays, not {len(listed)}")
    given: _Given = []
    claims = []
    try:
        for array in listed:
            one = endpoint.give(to, array.block)
            given.append((one, array))
            claims.append([one.name.hex(), array.dtype.str, list(array.shape)])
    except BaseException:
        take_back(endpoint, given)
        raise
    head = json.dumps({"a": claims}, separators=(",", ":")).encode()
    return _LENGTH.pack(len(head)) + head + rest, MARK, given


def take_back(endpoint: Any, given: _Given) -> None:
    """Puts the blocks that nobody accepted back into their arrays."""
    for one, array in given:
        try:
            endpoint._take_back_into(one, array.block)
        except Error:  # the endpoint is gone, and its blocks with it
            pass


def split(data: bytes) -> tuple[list[Any], bytes]:
    """The claims about arrays, and the rest. ValueError if the form is wrong."""
    if len(data) < _LENGTH.size:
        raise ValueError("too short")
    (length,) = _LENGTH.unpack_from(data)
    head = data[_LENGTH.size:_LENGTH.size + length]
    if len(head) != length:
        raise ValueError("too short")
    claims = json.loads(head)["a"]
    if not isinstance(claims, list) or len(claims) > ARRAYS_MAX:
        raise ValueError("a bad list")
    return claims, data[_LENGTH.size + length:]


def accept(endpoint: Any, source: int, data: bytes) -> tuple[Any, ...]:
    """The arrays that came with a message. The first that cannot be accepted is an exception."""
    try:
        claims, _ = split(data)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return (_broken(source, error),)
    found: list[Any] = []
    for claim in claims:
        try:
            name, dtype, shape = claim
            block = endpoint.accept(source, bytes.fromhex(name))
            found.append(arrays.of_claim(block, dtype, shape))
        except Error as error:
            found.append(_kept(error))
            break
        except Exception as error:  # whatever a peer's words do to json and numpy
            found.append(_broken(source, error))
    return tuple(found)


def _kept(error: Error) -> Error:
    """The exception without frames: one of them may have the message, and the message this.

    The collector does not see into a message, so such a circle would keep its arrays for ever.
    """
    error.__traceback__ = error.__context__ = None
    return error


def _broken(source: int, cause: Exception) -> PeerBroke:
    error = PeerBroke(f"endpoint {source} sent a message with a wrong list of arrays: {cause}")
    error.code, error.peer = -500, source
    return error


def one_array(message: Any) -> Array:
    """The only array of a message."""
    found: tuple[Array | Exception, ...] = message.arrays
    if len(found) != 1:
        raise TypeError(f"the message has {len(found)} arrays; see its attribute `arrays`")
    return whole(message)[0]


def whole(message: Any) -> list[Array]:
    """The arrays of a message, all of them or an exception."""
    arrays = []
    for array in message.arrays:
        if isinstance(array, Exception):
            raise _again(array)
        arrays.append(array)
    return arrays


def _again(error: Exception) -> Exception:
    """The same exception anew. A traceback of the one in the message would refer to the message."""
    if isinstance(error, Error):
        made = type(error)(*error.args)
        made.code, made.peer = error.code, error.peer
        return made
    return error


def decode(message: Any, into: Any, codec: Codec | None) -> Any:
    """The typed value of a message."""
    data = message.data
    if message.inline.startswith(MARK):
        try:
            _, data = split(data)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _broken(message.source, error) from None
    return (codec or JSON).decode(data, into)


def call(
    endpoint: Any, to: int, body: Any, m_type: int, timeout: float | None, into: Any,
    codec: Codec | None,
) -> Any:
    """A call with any body."""
    if isinstance(body, Block):
        answer = endpoint._with_block("call", to, body, m_type, timeout)
    else:
        data, inline, given = encode(endpoint, to, body, codec)
        try:
            answer = endpoint._call(to, data, m_type, timeout, inline)
        except BaseException:
            take_back(endpoint, given)
            raise
    return answer if into is None else decode(answer, into, codec)


def send(
    endpoint: Any, to: int, body: Any, m_type: int, timeout: float | None, codec: Codec | None
) -> None:
    """A send with any body."""
    if isinstance(body, Block):
        endpoint._with_block("send", to, body, m_type, timeout)
        return
    data, inline, given = encode(endpoint, to, body, codec)
    try:
        endpoint._send(to, data, m_type, timeout, inline)
    except BaseException:
        take_back(endpoint, given)
        raise


def reply(endpoint: Any, to: int, body: Any, m_type: int) -> None:
    """A reply with any body."""
    if isinstance(body, Block):
        endpoint._with_block("reply", to, body, m_type, None)
        return
    data, inline, given = encode(endpoint, to, body, None)
    try:
        endpoint._reply(to, data, m_type, inline)
    except BaseException:
        take_back(endpoint, given)
        raise
