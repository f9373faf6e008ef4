"""Typed messages: dataclasses and plain values as JSON, or as MessagePack.

A codec has `encode(value) -> bytes` and `decode(data, into)`. `Json` is the default. It is the same
code with and without other packages: two libraries differ in numbers, types and errors, and a
message may meet both. `MessagePack` needs msgspec. Nothing is pickled, so a message cannot run
code.

A value that has no form in JSON is a TypeError or ValueError of its sender. A type that has none is
a TypeError of its receiver, whatever the bytes are. All other bytes are a `DecodeError`.

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
import enum
import json
import math
import types
import typing
from collections.abc import Callable
from typing import Any, Protocol

from .arrays import is_array, is_array_type

try:
    import msgspec
except ImportError:  # only `MessagePack` needs it
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
    """JSON. Bytes are base64, and an enumeration is the value of its member."""

    def encode(self, value: Any) -> bytes:
        """The bytes of a value. TypeError or ValueError if it has no form in JSON."""
        text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
        return text.encode()

    def decode(self, data: bytes, into: Any) -> Any:
        """The value of this type in the bytes. DecodeError if there is none."""
        read = reader(into)
        try:
            plain = json.loads(str(data, "utf-8"), parse_float=_number, parse_constant=_number)
            return read(plain, "$")
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
        decoder = msgspec.msgpack.Decoder(into)
        try:
            return decoder.decode(data)
        except Exception as error:  # also of a class that the bytes fill
            raise DecodeError(str(error)) from None


def _number(text: str) -> float:
    """A number with a point or an exponent. NaN and infinities have no form in JSON."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text} is out of range")
    return number


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        if isinstance(value.value, (str, int, float)):
            return _plain(value.value)
        raise TypeError(f"{value} cannot be sent: its value is a {type_name(value.value)}")
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise ValueError(f"{value!r} has no form in JSON; send None, an array, or by MessagePack")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: _plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, dict):
        plain = {_key(key): _plain(item) for key, item in value.items()}
        if len(plain) != len(value):
            raise ValueError("two keys of a dict have the same text")
        return plain
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    raise TypeError(f"a {type_name(value)} cannot be sent; use a dataclass or plain values")


def type_name(value: Any) -> str:
    """The name of the type of a value, with its module."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, int) and not isinstance(key, (bool, enum.Enum)):
        return str(int(key))
    raise TypeError(f"a key of a dict is a str or an int, not a {type_name(key)}")


# Makes a value of the type out of a plain value; the text is its place, for the error.
Reader = Callable[[Any, str], Any]


class _Made(dict[type, Reader]):
    """Readers of dataclasses. `has_bytes` if plain values have bytes as they are, not as base64."""

    def __init__(self, has_bytes: bool) -> None:
        self.has_bytes = has_bytes


# The readers of dataclasses. They do not depend on the bytes, so that a type without a form in
# JSON is the same TypeError for all bytes.
_readers = {has_bytes: _Made(has_bytes) for has_bytes in (False, True)}


def reader(into: Any, has_bytes: bool = False) -> Reader:
    """The reader of a type. TypeError if the type has no form in JSON."""
    made = _Made(has_bytes)
    found = _reader(into, made)
    _readers[has_bytes].update(made)
    return found


def _reader(into: Any, made: _Made) -> Reader:
    if into is Any or into is object:
        return lambda value, at: value
    if into is None or into is type(None):
        return _null
    if isinstance(into, type) and dataclasses.is_dataclass(into):
        return _readers[made.has_bytes].get(into) or made.get(into) or _dataclass(into, made)
    if isinstance(into, type) and issubclass(into, enum.Enum):
        return lambda value, at: _member(into, value, at)
    origin, parts = typing.get_origin(into), typing.get_args(into)
    if origin in (typing.Union, types.UnionType):
        return _union(parts, made)
    if origin is typing.Annotated:
        return _reader(parts[0], made)
    if origin is typing.Literal and all(type(part) in _LITERAL for part in parts):
        return lambda value, at: _literal(parts, value, at)
    kind = origin or into
    if kind is dict and parts[:1] in ((), (str,), (int,), (Any,)):
        key, item = parts or (str, Any)
        return _dict(key, _reader(item, made))
    if kind in (list, set, frozenset):
        return _collection(kind, _reader(parts[0] if parts else Any, made))
    if kind is tuple:
        return _tuple(parts, made)
    if made.has_bytes and is_array_type(kind):
        return _array
    if kind in (bytes, bytearray) and made.has_bytes:
        return lambda value, at: kind(_need(value, bytes, at))
    if kind in (bytes, bytearray):
        return lambda value, at: kind(base64.b64decode(_need(value, str, at), validate=True))
    if kind is float:
        return _float
    if kind in (str, int, bool):
        return lambda value, at: _need(value, kind, at)
    raise TypeError(f"{into!r} has no form in JSON; use a dataclass or plain types, or MessagePack")


_LITERAL = (str, int, bool, type(None))


def _array(value: Any, at: str) -> Any:
    if is_array(value):
        return value
    raise _expected(at, "an array", value)


def _null(value: Any, at: str) -> None:
    if value is not None:
        raise _expected(at, "null", value)


def _float(value: Any, at: str) -> float:
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            raise DecodeError(f"{error} at `{at}`") from None
    return _need(value, float, at)


def _member(into: type[enum.Enum], value: Any, at: str) -> enum.Enum:
    try:
        member = into(value)
    except Exception:  # a class may have its own look-up
        raise _expected(at, into.__name__, value) from None
    if type(member.value) is not type(value):
        raise _expected(at, into.__name__, value)
    return member


def _literal(parts: tuple[Any, ...], value: Any, at: str) -> Any:
    if any(type(value) is type(part) and value == part for part in parts):
        return value
    raise _expected(at, f"one of {parts}", value)


def _dict(key: Any, item: Reader) -> Reader:
    def read(value: Any, at: str) -> Any:
        plain = _need(value, dict, at)
        return {(_int_key(name, at) if key is int else name): item(part, f"{at}.{name}")
                for name, part in plain.items()}
    return read


def _int_key(name: str, at: str) -> int:
    number = int(name)
    if str(number) != name:
        raise _expected(at, "keys that are numbers", name)
    return number


def _collection(kind: Any, item: Reader) -> Reader:
    def read(value: Any, at: str) -> Any:
        items = _items(value, item, at)
        try:
            return kind(items)
        except TypeError as error:  # an item of a set has no hash
            raise DecodeError(f"{error} at `{at}`") from None
    return read


def _dataclass(into: Any, made: _Made) -> Reader:
    plan: list[tuple[str, Reader, bool]] = []

    def read(value: Any, at: str) -> Any:
        _need(value, dict, at)
        values = {}
        for name, item, is_needed in plan:
            if name in value:
                values[name] = item(value[name], f"{at}.{name}")
            elif is_needed:
                raise DecodeError(f"{into.__name__} needs the field `{name}` at `{at}`")
        try:
            return into(**values)
        except Exception as error:  # the class refuses the values
            text = f"{into.__name__} at `{at}`: {type(error).__name__}: {error}"
            raise DecodeError(text) from None

    made[into] = read  # a field may have the type itself
    hints = typing.get_type_hints(into)
    for field in dataclasses.fields(into):
        if field.init:  # the class computes the others
            no_default = field.default is field.default_factory is dataclasses.MISSING
            plan.append((field.name, _reader(hints[field.name], made), no_default))
    return read


_FORMS = {str: "text", bool: "truth", int: "number", float: "number"}  # a bool is an int, too


def _forms(part: Any, made: _Made) -> list[tuple[str, Any]]:
    """The forms of a type in JSON, by which a union tells its types apart, each with the type."""
    while typing.get_origin(part) is typing.Annotated:
        part = typing.get_args(part)[0]
    kind = typing.get_origin(part) or part
    if kind is typing.Literal:
        kinds = {type(value) for value in typing.get_args(part)}
        return [(_FORMS[one], one) for one in kinds if one in _FORMS]
    if dataclasses.is_dataclass(kind) or kind is dict:
        return [("object", part)]
    if kind in (list, tuple, set, frozenset):
        return [("array", part)]
    if kind in (bytes, bytearray):
        return [("bytes" if made.has_bytes else "text", kind)]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        found = [[form for one, form in _FORMS.items() if isinstance(member.value, one)]
                 for member in kind]
        return [(forms[0], kind) for forms in found if forms]
    return [(_FORMS[kind], kind)] if kind in _FORMS else []


def _union(parts: tuple[Any, ...], made: _Made) -> Reader:
    forms: dict[str, Any] = {}
    for form, kind in (found for part in parts for found in _forms(part, made)):
        other = forms.setdefault(form, kind)
        if other is not kind and {other, kind} != {int, float}:
            raise TypeError(
                f"{forms[form].__name__} and {kind.__name__} of a union look alike in JSON; use "
                "one of them, or a dataclass with a field for each"
            )
    # An integer is a float only where it cannot be an integer.
    readers = [_reader(part, made) for part in sorted(parts, key=lambda part: part is float)]

    def read(value: Any, at: str) -> Any:
        for item in readers:
            try:
                return item(value, at)
            except ValueError:
                continue
        names = " | ".join(getattr(part, "__name__", str(part)) for part in parts)
        raise _expected(at, names, value)
    return read


def _tuple(parts: tuple[Any, ...], made: _Made) -> Reader:
    if not parts or (len(parts) == 2 and parts[1] is Ellipsis):
        item = _reader(parts[0] if parts else Any, made)
        return lambda value, at: tuple(_items(value, item, at))
    readers = [_reader(part, made) for part in parts]

    def read(value: Any, at: str) -> Any:
        items = _need(value, list, at)
        if len(items) != len(readers):
            raise DecodeError(f"expected {len(readers)} items at `{at}`, got {len(items)}")
        return tuple(item(part, f"{at}[...]") for part, item in zip(items, readers))
    return read


def _items(value: Any, item: Reader, at: str) -> list[Any]:
    return [item(part, f"{at}[...]") for part in _need(value, list, at)]


def _need(value: Any, kind: type, at: str) -> Any:
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    raise _expected(at, kind.__name__, value)


def _expected(at: str, what: str, value: Any) -> DecodeError:
    return DecodeError(f"expected {what} at `{at}`, got {type(value).__name__}")


JSON: Codec = Json()
