"""Tasks of a pool as bytes: plain values in JSON, arrays beside them.

An array in a value is `{"$a": INDEX}`, bytes are `{"$b": BASE64}`.
"""
from __future__ import annotations

import base64
import dataclasses
import inspect
import json
import sys
import types
import typing
from typing import Any

from . import _bodies
from ._native import Message
from .arrays import is_array
from .codec import reader, type_name

HELLO, TASK, DONE, REFUSED = 1, 2, 3, 4
# Whether this process is a worker that imports the main program of its pool.
is_importing_main = False


def without_arrays(value: Any, arrays: list[Any]) -> Any:
    """The value as JSON has it. Its arrays go to the list."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if is_array(value):
        arrays.append(value)
        return {"$a": len(arrays) - 1}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$b": base64.b64encode(bytes(value)).decode()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: without_arrays(getattr(value, field.name), arrays) for field in fields}
    if isinstance(value, dict):
        if not all(isinstance(key, str) and not key.startswith("$") for key in value):
            raise TypeError("the keys of a dict in a task are text that does not begin with $")
        return {key: without_arrays(item, arrays) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_arrays(item, arrays) for item in value]
    if _is_number(value):
        return value.item()
    advice = "only plain values, bytes, dataclasses and arrays can, since nothing is pickled"
    if any(hasattr(value, name) for name in ("dtype", "__array__", "__dlpack__")):
        advice = "send numpy.asarray(value), and beside it what that leaves out, as a mask"
    raise TypeError(f"a {type_name(value)} cannot go to another process: {advice}")


def _is_number(value: Any) -> bool:
    """Whether it is a scalar of numpy that Python has as a number too."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.generic):
        return False
    return value.dtype.kind in "biuf" and value.dtype.isnative and value.dtype.itemsize <= 8 \
        and type(value).__module__ == "numpy"


def with_arrays(value: Any, arrays: list[Any]) -> Any:
    """The value with its arrays."""
    if isinstance(value, list):
        return [with_arrays(item, arrays) for item in value]
    if isinstance(value, dict):
        if value.keys() == {"$a"}:
            return arrays[value["$a"]]
        if value.keys() == {"$b"}:
            return base64.b64decode(value["$b"])
        return {key: with_arrays(item, arrays) for key, item in value.items()}
    return value


def write(value: Any) -> bytes:
    """The bytes of a value without arrays."""
    return json.dumps(value, separators=(",", ":")).encode()


def read(message: Message) -> Any:
    """The value in a message with a list of arrays."""
    return json.loads(_bodies.rest_of(message.data))


def name_of(function: Any) -> str:
    """MODULE:QUALNAME of a function that another process can import."""
    path = getattr(function, "__qualname__", "")
    module = getattr(function, "__module__", None)
    if not path or module is None or "<" in path:
        raise TypeError(f"{function!r} has no name that a worker can import; use a plain function")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    # Each look-up of a class method makes another object.
    is_class_method = isinstance(function, types.MethodType) and found == function
    if found is not function and not is_class_method:
        raise TypeError(
            f"{function!r} is not what its name {module}:{path} leads to, which a worker would "
            "run; submit a plain function of a module that calls it"
        )
    return f"{module}:{path}"


def hints_of(function: Any) -> dict[str, Any]:
    """The annotations of a function, where they can be evaluated."""
    try:
        return typing.get_type_hints(function)
    except Exception:
        return {}


def annotated(value: Any, hint: Any) -> Any:
    """The plain value as its annotation wants it, if that has a dataclass or is a tuple or set."""
    if _has_dataclass(hint):
        return reader(hint, has_bytes=True)(value, "$")
    kind = typing.get_origin(hint) or hint
    if kind in (tuple, set) and isinstance(value, list):
        try:
            return reader(hint, has_bytes=True)(value, "$")
        except TypeError:  # an annotation with types of others
            return tuple(value) if kind is tuple else value
    return value


def _has_dataclass(hint: Any) -> bool:
    """Whether an annotation is a dataclass, or has one inside."""
    kind = typing.get_origin(hint) or hint
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return True
    return any(map(_has_dataclass, typing.get_args(hint)))


def arguments(function: Any, task: Any, views: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a task."""
    args, kwargs = with_arrays(task["a"], views), with_arrays(task["k"], views)
    hints = hints_of(function)
    if not hints:
        return args, kwargs
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return args, kwargs
    places: list[Any] = []
    names: dict[str, Any] = {}
    more = others = None  # the hints of *args and of **kwargs
    for parameter in parameters:
        kind, hint = parameter.kind, hints.get(parameter.name)
        if kind is parameter.VAR_POSITIONAL:
            more = hint
        elif kind is parameter.VAR_KEYWORD:
            others = hint
        if kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            places.append(hint)
        if kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names[parameter.name] = hint
    places += [more] * (len(args) - len(places))
    args = [annotated(value, hint) for value, hint in zip(args, places)]
    return args, {name: annotated(value, names.get(name, others)) for name, value in kwargs.items()}
