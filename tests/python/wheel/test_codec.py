"""The codec with msgspec and without it: one form of bytes."""
import enum
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional

import pytest
from m3ipc import DecodeError, Json, MessagePack, codec


@dataclass
class Inner:
    data: bytes
    tags: list[str] = field(default_factory=list)


@dataclass
class Outer:
    number: int
    ratio: float
    inner: Inner
    pair: tuple[int, str]
    more: Optional[Inner] = None
    kind: Literal["a", "b"] = "a"
    table: dict[str, int] = field(default_factory=dict)
    rest: Any = None


VALUE = Outer(1, 2.0, Inner(b"\x00\xff", ["x"]), (3, "four"), Inner(b""), "b", {"k": 5}, [1, None])


@pytest.fixture(params=["msgspec", "plain"])
def json(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(codec, "msgspec", None)
    return Json()


def test_dataclasses(json):
    assert json.decode(json.encode(VALUE), Outer) == VALUE


def test_one_form_of_bytes(monkeypatch):
    by_msgspec = Json().encode(VALUE)
    monkeypatch.setattr(codec, "msgspec", None)
    assert Json().encode(VALUE) == by_msgspec
    assert Json().decode(by_msgspec, Outer) == VALUE


@pytest.mark.parametrize("data", [
    b"", b"{", b"[]", b"{}", b'{"data": 5}', b'{"data": "!"}', b'{"data": "", "tags": 1}', b"\xff",
    b'{"data": "", "x": ' + b"[" * 100_000,
])
def test_other_bytes_are_refused(json, data):
    with pytest.raises(DecodeError):
        json.decode(data, Inner)


class Colour(enum.Enum):
    RED = "r"
    PAIR = (1, 2)


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Tree:
    colour: Colour
    level: Level
    either: float | int
    wide: float | None
    children: list["Tree"] = field(default_factory=list)
    size: int = field(init=False, default=7)


@pytest.mark.parametrize("value", [object(), lambda: None, {1.5: 2}, {True: 1}, {Colour.RED: 1},
                                   Colour.PAIR, 1j])
def test_objects_are_refused(json, value):
    with pytest.raises(TypeError):
        json.encode(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [-float("inf")], {1: 2, "1": 3},
                                   "\ud800"])
def test_values_without_a_form_are_refused_at_the_sender(json, value):
    for inside in (value, {"x": [value]}, Inner(b"", value)):
        with pytest.raises(ValueError):
            json.encode(inside)


TREE = Tree(Colour.RED, Level.LOW, 1, 1.5, [Tree(Colour.RED, Level.LOW, 1.5, None)])


@pytest.mark.parametrize("value, into, data", [
    (1e16, float, b"1e+16"), (1e-7, float, b"1e-07"), (2, float, b"2"), (-0.0, float, b"-0.0"),
    (1 << 70, int, str(1 << 70).encode()), ("\x00\x1f\x7f/\u20ac", str, None),
    (memoryview(b"abcd")[::2], bytes, b'"YWM="'), ({-5: 1}, dict[int, int], b'{"-5":1}'),
    (TREE, Tree, None), ((1, "a"), tuple[int, str], b'[1,"a"]'), ({1}, frozenset[int], b"[1]"),
    (Level.LOW, Level, b"1"), (Colour.RED, Colour | None, b'"r"'),
])
def test_values_are_the_same_with_msgspec_and_without(monkeypatch, value, into, data):
    seen = []
    for present in (codec.msgspec, None):
        monkeypatch.setattr(codec, "msgspec", present)
        encoded = Json().encode(value)
        decoded = Json().decode(encoded, into)
        seen.append((encoded, decoded, type(decoded)))
    assert seen[0] == seen[1] and seen[0][0] == (data or seen[0][0])
    assert seen[0][1] == (bytes(value) if isinstance(value, memoryview) else value)


def test_an_integer_stays_one_beside_floats(json):
    for into in (float | int, int | float):
        assert [type(json.decode(data, into)) for data in (b"1", b"1.0")] == [int, float]


@dataclass
class Other:
    data: bytes = b""


class Word(str, enum.Enum):
    YES = "yes"


class Rank(enum.Enum):
    FIRST = 1
    LAST = "last"
    HALF = 0.5


class Switch(enum.Enum):
    ON = True


@pytest.mark.parametrize("into", [
    Inner | Other, Inner | dict[str, int], bytes | str, bytes | bytearray, Colour | str,
    Colour | Word, Literal["abcd"] | bytes, Annotated[bytes, 1] | str, list[int] | set[int],
    list[int] | list[str], tuple[int, int] | frozenset[int], list[Inner | Other | None],
    Level | int, float | Level, Level | Rank, Rank | str, Literal[1] | Level, Switch | bool,
])
def test_a_union_of_types_that_look_alike_is_refused(json, into):
    for data in (b"{}", b'{"data": ""}', b'"r"', b"[]", b"null"):
        with pytest.raises(TypeError, match="look alike"):
            json.decode(data, into)


@pytest.mark.parametrize("value, into", [
    (Inner(b"\xff"), Inner | None), (None, Inner | None), (Colour.RED, Colour | None),
    (Inner(b""), Inner | str | list[int] | int | None), ("a", Inner | str | list[int] | int),
    ([1], Inner | str | list[int] | int), ("b", Literal["a"] | str), (1.5, int | float),
    (b"\xff", bytes | int), (Level.LOW, Level | str), (True, Level | bool), (2, Literal[1] | int),
    (1, Switch | int), (0.5, int | float | None),
])
def test_a_union_of_other_types_is_read(json, value, into):
    assert json.decode(json.encode(value), into) == value


@dataclass
class Refuses:
    x: Any

    def __post_init__(self):
        {}[self.x]


@pytest.mark.parametrize("data, into", [
    (b"NaN", float), (b"Infinity", Any), (b"1e999", float), (b"[1e999]", Any),
    (b"9" * 400, float), (b"9" * 5_000, int), (b"[[1]]", set[Any]), (b"[{}]", frozenset),
    (b'{"x": 1}', Refuses), (b'{"x": []}', Refuses), (b'{"x": 1}', dict[int, int]),
    (b'{"1_0": 1}', dict[int, int]), (b'{" 1": 1}', dict[int, int]), (b'"x"', Colour),
    (b"[]", Colour), (b"true", Level), (b"1.0", Level), (b"true", Literal[1]), (b"1.0", Literal[1]),
    (b"[]", Literal[1]), ('"\u20ac"'.encode(), bytes), (b"\xff\xfe1\x00", int),
    (b"\xef\xbb\xbf1", int),
    (b"true", int), (b"true", float), (b"[" * 100_000, Any), (b"[1]", tuple[int, int]),
])
def test_the_bytes_of_a_peer_are_a_decode_error_at_most(json, data, into):
    with pytest.raises(DecodeError):
        json.decode(data, into)


@pytest.mark.parametrize("into", [list[complex], dict[float, int], Literal[b"x"], "text", 5])
def test_a_type_without_a_form_is_one_for_all_bytes(json, into):
    for data in (b"[]", b"{}", b"[1]", b"1", b"x"):
        with pytest.raises(TypeError):
            json.decode(data, into)


def test_message_pack():
    pack = MessagePack()
    assert pack.decode(pack.encode(VALUE), Outer) == VALUE
    with pytest.raises(DecodeError):
        pack.decode(b"\xc1", Outer)
    for data in (b"\x81\xa1x\x01", b"\x81\xa1x\x90"):  # {"x": 1}, {"x": []}
        with pytest.raises(DecodeError):
            pack.decode(data, Refuses)
    with pytest.raises(TypeError):
        pack.decode(b"\x90", list[dict[Inner, lambda: None]])


def test_message_pack_needs_msgspec(monkeypatch):
    monkeypatch.setattr(codec, "msgspec", None)
    with pytest.raises(ImportError, match="msgspec"):
        MessagePack()
