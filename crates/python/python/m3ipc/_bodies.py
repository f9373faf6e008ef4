"""Bodies of messages beside plain bytes: typed values, arrays, blocks.

A message with arrays has this mark in the 40 bytes inside the message. The bytes beside it are a
length of 4 bytes, that many bytes of JSON, and the bytes of the typed value:

    {"a": [[NAME, TYPE, SHAPE], ...]}      NAME: the block's name in hexadecimal digits

A small array has null as its name. Its bytes travel in the message, between the JSON and the typed
value: a block costs more than the copy of a few bytes. The other arrays are given before the
message goes out, and accepted when it is taken. If nobody takes the message, all come back.
"""
from __future__ import annotations

import functools
import json
import math
import struct
from typing import Any

from . import arrays
from ._native import Block, Given
from .arrays import Array, is_array, plain_dtype, type_and_shape
from .codec import JSON, Codec, DecodeError
from .errors import Error, PeerBroke

MARK = b"m3py\x01"
_LENGTH = struct.Struct("<I")
ARRAYS_MAX = 1024
# The arrays of a message travel as bytes as long as they have fewer bytes together.
SMALL_BYTES = 64 << 10
# Lists of claims that are kept as they were understood.
_HEAD_KNOWN_BYTES = 256

# What comes back if nobody takes the message: a block, or the bytes of a small array.
_Given = list[tuple[Given | bytes, Array]]


def encode(endpoint: Any, to: int, body: Any, codec: Codec | None) -> tuple[bytes, bytes, _Given]:
    """The bytes beside the message, those inside, and the arrays that were given."""
    if body is None:
        return b"", b"", []
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body), b"", []
    if isinstance(body, str):
        raise TypeError("text has no bytes of its own; send text.encode()")
    if is_array(body) and body.nbytes < SMALL_BYTES:
        if not isinstance(body, Array):
            return _prefix(plain_dtype(body.dtype), body.shape) + body.tobytes(), MARK, []
        if (one := body.block._take_bytes()) is not None:
            return _prefix(body.dtype, body.shape) + one[:body.nbytes], MARK, [(one, body)]
    listed = as_arrays(endpoint, to, body)
    if listed is None:
        return (codec or JSON).encode(body), b"", []
    return with_arrays(endpoint, to, listed, b"")


@functools.lru_cache(256)
def _prefix(dtype: Any, shape: tuple[int, ...]) -> bytes:
    """What goes before the bytes of one small array."""
    head = f'{{"a":[{_claim("null", dtype, shape)}]}}'.encode()
    return _LENGTH.pack(len(head)) + head


def _claim(name: str, dtype: Any, shape: tuple[int, ...]) -> str:
    return f'[{name},"{dtype.str}",[{",".join(map(str, shape))}]]'


def as_arrays(endpoint: Any, to: int, body: Any) -> list[Array] | None:
    """The arrays that the body is, if it is one or a list of them."""
    if is_array(body):
        return [array_of(endpoint, to, body)]
    if isinstance(body, (list, tuple)) and body and all(is_array(item) for item in body):
        return [array_of(endpoint, to, item) for item in body]
    return None


def array_of(endpoint: Any, to: int | None, value: Any) -> Array:
    """The array itself, or a copy of one of numpy."""
    return value if isinstance(value, Array) else copied(endpoint, to, value)


def copied(endpoint: Any, to: int | None, view: Any) -> Array:
    """A copy of a numpy array in a new block."""
    found = plain_dtype(view.dtype)
    if view.nbytes < SMALL_BYTES:
        data = view.tobytes() or b"\0"
        return Array(Block._local_of(data, 0, len(data)), found, view.shape)
    array = Array(endpoint.block(view.nbytes, to=to), found, view.shape)
    array[...] = view
    return array


def new_array(endpoint: Any, shape: Any, dtype: Any, to: int | None) -> Array:
    """An array in a new block of the endpoint, or in the memory of the process if it is small."""
    found = plain_dtype(dtype)
    lengths = (int(shape),) if isinstance(shape, int) else tuple(map(int, shape))
    if min(lengths, default=0) < 0:
        raise ValueError(f"a bad shape: {lengths}")
    nbytes = _nbytes(found, lengths)
    if nbytes < SMALL_BYTES:
        return Array(Block._local(max(nbytes, 1)), found, lengths)
    return Array(endpoint.block(nbytes, to=to), found, lengths)


def with_arrays(
    endpoint: Any, to: int, listed: list[Array], rest: bytes
) -> tuple[bytes, bytes, _Given]:
    """Gives the arrays, and makes the message that names them."""
    if len(listed) > ARRAYS_MAX:
        raise ValueError(f"a message has at most {ARRAYS_MAX} arrays, not {len(listed)}")
    given: _Given = []
    claims: list[str] = []
    parts: list[bytes] = []
    room = SMALL_BYTES
    one: Any
    try:
        for array in listed:
            nbytes, name, one = array.nbytes, "null", None
            if nbytes < room:
                one = array.block._take_bytes()
            if one is not None:
                room -= nbytes
                parts.append(one[:nbytes])
            else:
                one = endpoint.give(to, array.block)
                name = f'"{one.name.hex()}"'
            given.append((one, array))
            claims.append(_claim(name, array.dtype, array.shape))
    except BaseException:
        take_back(endpoint, given)
        raise
    head = f'{{"a":[{",".join(claims)}]}}'.encode()
    return b"".join([_LENGTH.pack(len(head)), head, *parts, rest]), MARK, given


def take_back(endpoint: Any, given: _Given, taken: bool | None = None) -> None:
    """Puts the blocks that nobody accepted back into their arrays, and the bytes of the small ones
    unless the peer has taken the message."""
    for one, array in given:
        if isinstance(one, bytes):
            if not taken:
                array.block._put_bytes(one)
            continue
        try:
            endpoint._take_back_into(one, array.block)
        except Error:  # the endpoint is gone, and its blocks with it
            pass


def split(data: bytes) -> tuple[list[Any], int]:
    """The claims about arrays, and the place after them. ValueError if the form is wrong."""
    if len(data) < _LENGTH.size:
        raise ValueError("too short")
    (length,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + length
    if len(data) < end:
        raise ValueError("too short")
    try:
        claims = json.loads(data[_LENGTH.size:end])["a"]
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"a bad list: {error}") from None
    if not isinstance(claims, list) or len(claims) > ARRAYS_MAX:
        raise ValueError("a bad list")
    return claims, end


def rest_of(data: bytes) -> bytes:
    """The bytes after the arrays. ValueError if the form is wrong."""
    claims, place = split(data)
    for claim in claims:
        if isinstance(claim, list) and len(claim) == 3 and claim[0] is None:
            place += _nbytes(*type_and_shape(claim[1], claim[2]))
    if place > len(data):
        raise ValueError("too short")
    return data[place:]


@functools.lru_cache(256)
def _small_claims(head: bytes) -> list[tuple[Any, tuple[int, ...], int]] | None:
    """The types, shapes and lengths, if the claims are right and all about bytes: most messages
    repeat those of others."""
    try:
        claims, _ = split(head)
        found = [(name, *type_and_shape(dtype, shape)) for name, dtype, shape in claims]
    except (ValueError, TypeError):
        return None
    plan = [(dtype, shape, _nbytes(dtype, shape)) for name, dtype, shape in found if name is None]
    is_small = all(0 < nbytes <= SMALL_BYTES for *_, nbytes in plan)
    return plan if is_small and len(plan) == len(claims) else None


def _nbytes(dtype: Any, shape: tuple[int, ...]) -> int:
    nbytes: int = dtype.itemsize * math.prod(shape)
    return nbytes


def accept(endpoint: Any, source: int, data: bytes) -> tuple[Any, ...]:
    """The arrays that came with a message. The first that cannot be accepted is an exception."""
    found: list[Any] = []
    try:
        place = _LENGTH.size + int.from_bytes(data[:_LENGTH.size], "little")
        if place < _HEAD_KNOWN_BYTES and (plan := _small_claims(data[:place])) is not None:
            for dtype, shape, nbytes in plan:
                block = Block._local_of(data, place, place + nbytes)
                place += nbytes
                found.append(Array(block, dtype, shape))
            return tuple(found)
        claims, place = split(data)
    except ValueError as error:
        return (_broken(source, error),)
    for claim in claims:
        try:
            name, dtype, shape = claim
            if name is None:
                kind, lengths = type_and_shape(dtype, shape)
                nbytes = _nbytes(kind, lengths)
                # An array without items has a byte too, as numpy needs one.
                block = Block._local_of(data, place, place + nbytes) if nbytes else Block._local(1)
                place += nbytes
                found.append(Array(block, kind, lengths))
            else:
                block = endpoint.accept(source, bytes.fromhex(name))
                found.append(arrays.of_claim(block, dtype, shape))
        except Error as error:
            found.append(_kept(error))
            break
        except Exception as error:  # whatever a peer's words do to json and numpy
            found.append(_broken(source, error))
            if not (isinstance(claim, list) and claim and isinstance(claim[0], str)):
                break  # the place of the next bytes is unknown
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
            data = rest_of(data)
        except ValueError as error:
            raise DecodeError(f"a wrong list of arrays: {error}") from None
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
        except BaseException as error:
            take_back(endpoint, given, getattr(error, "taken", None))
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
    except BaseException as error:
        take_back(endpoint, given, getattr(error, "taken", None))
        raise


def reply(endpoint: Any, to: int, body: Any, m_type: int) -> bool:
    """A reply with any body. Whether its client still waited."""
    if isinstance(body, Block):
        return endpoint._reply_block(to, body, m_type)
    data, inline, given = encode(endpoint, to, body, None)
    delivered = False
    try:
        delivered = endpoint._reply(to, data, m_type, inline)
    finally:
        if not delivered:
            take_back(endpoint, given)
    return delivered
