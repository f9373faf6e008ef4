"""The codec with msgspec and without it: one form of bytes."""
from dataclasses import dataclass, field
from typing import Any, Literal, Optional

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


@pytest.mark.parametrize("value", [object(), lambda: None, {1.5: 2}])
def test_objects_are_refused(json, value):
    if isinstance(value, dict) and codec.msgspec is not None:
        pytest.skip("msgspec writes such keys")
    with pytest.raises(TypeError):
        json.encode(value)


def test_message_pack():
    pack = MessagePack()
    assert pack.decode(pack.encode(VALUE), Outer) == VALUE
    with pytest.raises(DecodeError):
        pack.decode(b"\xc1", Outer)


def test_message_pack_needs_msgspec(monkeypatch):
    monkeypatch.setattr(codec, "msgspec", None)
    with pytest.raises(ImportError, match="msgspec"):
        MessagePack()
