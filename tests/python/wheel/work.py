"""Functions of tasks."""
import functools
import os
import signal
import sys
import time
from dataclasses import dataclass

import numpy as np

kept = []


@dataclass
class Point:
    x: int
    y: int


@dataclass
class Job:
    data: bytes
    either: bytes | str = ""


class Base:
    @classmethod
    def name(cls):
        return cls.__name__

    @staticmethod
    def three():
        return 3

    def method(self):
        return 4


class Derived(Base):
    pass


def total(array):
    return float(array.sum())


@functools.wraps(total)
def wrapped_total(array):
    return -total(array)


def same_job(job: Job) -> Job:
    assert isinstance(job, Job)
    return job


def bytes_and_length(data) -> tuple[bytes, int]:
    return data, len(data)


def doubled(array):
    array *= 2
    return array


def keeps(array):
    kept.append(array[1:])
    return array


def fills(number):
    kept.append(np.ones(number, "u1"))


def kept_total(_):
    return float(kept[0].sum())


def move(point: Point, by: tuple[int, int]) -> Point:
    assert isinstance(by, tuple)
    return Point(point.x + by[0], point.y + by[1])


@dataclass
class Marked:
    point: Point
    marks: np.ndarray


@dataclass
class Odd:
    where: os.PathLike


def inner(
    row: list[Point], names: dict[str, Point], maybe: Point | None, marked: Marked
) -> list[Point | None]:
    assert isinstance(marked.marks, np.ndarray)
    return [*row, *names.values(), maybe, marked.point]


def odd(value: Odd) -> Odd:
    return value


def kinds(first: Point, /, second: Point, *more: Point, last: Job, **others: Job) -> list:
    return [type(one).__name__ for one in (first, second, *more, last, *others.values())]


def parts(number, data):
    return {"rows": [np.full(number, 2.0), data], "none": None, "text": "t", "pid": os.getpid()}


def as_pairs(array):
    """The same memory with a type that no message describes."""
    return array.view([("one", "f4"), ("two", "f4")])


def fails(text):
    raise ValueError(text)


def no_value():
    return object()


def dies(code):
    os._exit(code)


def is_killed():
    os.kill(os.getpid(), signal.SIGKILL)


def sleeps(seconds):
    time.sleep(seconds)
    return seconds


def breaks_replies(times):
    """The next answers of this worker are no bytes."""
    from m3ipc import _bodies

    whole = _bodies.with_arrays

    def broken(endpoint, to, arrays, rest):
        nonlocal times
        data, inline, given = whole(endpoint, to, arrays, rest)
        times -= 1
        return (data if times < 0 else None), inline, given

    _bodies.with_arrays = broken
    return 0


def loses_its_endpoint():
    """Closes the worker's endpoint, and goes on."""
    frame = sys._getframe()
    while "endpoint" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["endpoint"].close()
    time.sleep(1000)
