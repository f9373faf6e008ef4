"""Typed messages: dataclasses and plain values as JSON, or as MessagePack.

A codec has `encode(value) -> bytes` and `decode(data, into)`. `Json` is the default. It works
without other packages; where msgspec is installed, msgspec does the work, and checks types more
strictly. The bytes are the same. Nothing is pickled, so a message cannot run code.

>>> from dataclasses import dataclass
>>> @dataclass
... class Add:
...     a: int
...     b: int
>>> Json().decode(Json().encode(Add(2, 40)), Add)
Add(a=2, b=40)
>>> Json().decode(b'{"a": 2}', Add)
Traceback (most recent call last):
m3ipc.codec.DecodeError: ...
"""
from __future__ import annotations

import base64
import dataclasses
import json
import types
import typing
from typing import Any, Protocol

try:
    import msgspec
except ImportError:  # the standard library does the work
    msgspec = None  # type: ignore[assignment]


class DecodeError(ValueError):
    """The bytes are no value of the expected type."""


class Codec(Protocol):
    """What turns values into bytes and back."""

    def encode(self, value: Any) -> bytes:
        """The bytes of a value."""

    def decode(self, data: bytes, into: Any) -> Any:
        """The value of this type in the bytes."""


class Json:
    """JSON. Bytes are base64, as msgspec has them."""

    def encode(self, value: Any) -> bytes:
        """The bytes of a value. TypeError if it has no form in JSON."""
        if msgspec is not None:
            return msgspec.json.encode(value)
        text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
        return text.encode()

    def decode(self, data: bytes, into: Any) -> Any:
        """The value of this type in the bytes. DecodeError if there is none."""
        if msgspec is not None:
            return _checked(msgspec.json.decode, data, into)
        try:
            return _typed(json.loads(data), into, "$")
        except (ValueError, RecursionError) as error:
            raise DecodeError(str(error)) from None


class MessagePack:
    """MessagePack, by msgspec. Smaller and faster where messages have many bytes."""

    def __init__(self) -> None:
        if msgspec is None:
            raise ImportError("MessagePack needs the package msgspec: pip install msgspec")

    def encode(self, value: Any) -> bytes:
        """The bytes of a value."""
        return msgspec.msgpack.encode(value)

    def decode(self, data: bytes, into: Any) -> Any:
        """The value of this type in the bytes. DecodeError if there is none."""
        return _checked(msgspec.msgpack.decode, data, into)


def _checked(decode: Any, data: bytes, into: Any) -> Any:
    try:
        return decode(data, type=into)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(str(error)) from None


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: _plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    raise TypeError(f"a {type(value).__name__} cannot be sent; use a dataclass or plain values")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    raise TypeError(f"a key of a dict is a str or an int, not a {type(key).__name__}")


def _typed(value: Any, into: Any, at: str) -> Any:
    """The plain value as one of the type; `at` is its place, for the error."""
    if into is Any or into is object:
        return value
    if into is None or into is type(None):
        if value is None:
            return None
        raise _expected(at, "null", value)
    if dataclasses.is_dataclass(into):
        return _dataclass(value, into, at)
    origin, parts = typing.get_origin(into), typing.get_args(into)
    if origin in (typing.Union, types.UnionType):
        return _union(value, parts, at)
    if origin is typing.Annotated:
        return _typed(value, parts[0], at)
    if origin is typing.Literal:
        if value in parts:
            return value
        raise _expected(at, f"one of {parts}", value)
    kind = origin or into
    if kind is dict:
        key, item = parts or (str, Any)
        _need(value, dict, at)
        return {(int(name) if key is int else name): _typed(part, item, f"{at}.{name}")
                for name, part in value.items()}
    if kind in (list, set, frozenset):
        item = parts[0] if parts else Any
        return kind(_items(value, item, at))
    if kind is tuple:
        return _tuple(value, parts, at)
    if kind in (bytes, bytearray):
        _need(value, str, at)
        return kind(base64.b64decode(value, validate=True))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind in (str, int, float, bool):
        if isinstance(value, bool) and kind is not bool:
            raise _expected(at, kind.__name__, value)
        return _need(value, kind, at)
    raise TypeError(f"{into!r} cannot be decoded; use a dataclass or plain types, or msgspec")


def _dataclass(value: Any, into: Any, at: str) -> Any:
    _need(value, dict, at)
    hints = typing.get_type_hints(into)
    made = {}
    for field in dataclasses.fields(into):
        if field.name in value:
            made[field.name] = _typed(value[field.name], hints[field.name], f"{at}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise DecodeError(f"{into.__name__} needs the field `{field.name}` at `{at}`")
    return into(**made)


def _union(value: Any, parts: tuple[Any, ...], at: str) -> Any:
    for part in parts:
        try:
            return _typed(value, part, at)
        except ValueError:
            continue
    raise _expected(at, " | ".join(getattr(part, "__name__", str(part)) for part in parts), value)


def _tuple(value: Any, parts: tuple[Any, ...], at: str) -> tuple[Any, ...]:
    if len(parts) == 2 and parts[1] is Ellipsis:
        return tuple(_items(value, parts[0], at))
    if not parts:
        return tuple(_items(value, Any, at))
    _need(value, list, at)
    if len(value) != len(parts):
        raise DecodeError(f"expected {len(parts)} items at `{at}`, got {len(value)}")
    return tuple(_typed(item, part, f"{at}[...]") for item, part in zip(value, parts))


def _items(value: Any, item: Any, at: str) -> list[Any]:
    return [_typed(part, item, f"{at}[...]") for part in _need(value, list, at)]


def _need(value: Any, kind: type, at: str) -> Any:
    if isinstance(value, kind):
        return value
    raise _expected(at, kind.__name__, value)


def _expected(at: str, what: str, value: Any) -> DecodeError:
    return DecodeError(f"expected {what} at `{at}`, got {type(value).__name__}")


JSON: Codec = Json()
