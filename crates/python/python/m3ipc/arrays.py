"""Arrays in shared memory that change their owner without a copy.

An `Array` is a block with a type and a shape. numpy, memoryview and DLPack read and write it in
place. While such a view exists, the array cannot be given away: the call raises `BufferError`. So
nothing here can write an array that belongs to another process.
"""
from __future__ import annotations

import functools
import math
import sys
from typing import TYPE_CHECKING, Any

from ._native import Block

if TYPE_CHECKING:
    import numpy as np

# Kinds of numpy types whose values are plain bytes.
_PLAIN = "biufcSUVmM?"
# numpy has at most 64 dimensions; a peer may claim more.
_DIMENSIONS_MAX = 64


class Array:
    """A block as an array of numbers.

    `Endpoint.array` makes one; a message brings one. Its methods make views for one statement
    alone, so `a[:] = 1.0` leaves no view behind. `numpy()` gives a view that stays as long as
    the caller keeps it.
    """

    __slots__ = ("_home", "block", "dtype", "shape")

    def __init__(self, block: Block, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.block, self.dtype, self.shape = block, dtype, shape
        # The worker of a pool that can get the memory as it is.
        self._home: int | None = None

    @property
    def nbytes(self) -> int:
        """Its length in bytes."""
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def is_held(self) -> bool:
        """Whether it is still here: not given away and not released."""
        return self.block.is_held

    def numpy(self) -> np.ndarray[Any, Any]:
        """A view for numpy, without a copy. Delete it before the array is given away."""
        import numpy

        view: Any = self.block  # a buffer, which `frombuffer` keeps, unlike `ndarray`
        shape = self.shape
        if len(shape) == 1:
            return numpy.frombuffer(view, self.dtype, shape[0])
        return numpy.frombuffer(view, self.dtype, math.prod(shape)).reshape(shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        import numpy

        view = self.numpy()
        if copy or (dtype is not None and numpy.dtype(dtype) != self.dtype):
            if copy is False:
                raise ValueError(f"an array of {self.dtype} becomes {dtype} only by a copy")
            return view.astype(self.dtype if dtype is None else dtype)
        return view

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU

    def __getitem__(self, key: Any) -> Any:
        return self.numpy()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.numpy()[key] = value

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def release(self) -> None:
        """Frees the memory now. The end of the object frees it too."""
        self.block.release()

    def __repr__(self) -> str:
        state = "" if self.is_held else ", given away"
        return f"<m3ipc.Array {self.dtype} {self.shape}{state}>"


def is_array(value: Any) -> bool:
    """Whether the value travels as an array. A subclass of numpy's array may say more than its
    numbers, as a mask does, so it does not."""
    if isinstance(value, Array):
        return True
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) in (numpy.ndarray, numpy.memmap)


def is_array_type(kind: Any) -> bool:
    """Whether the values of a type travel as arrays."""
    numpy = sys.modules.get("numpy")
    return kind is Array or (numpy is not None and kind is numpy.ndarray)


def plain_dtype(dtype: Any) -> np.dtype[Any]:
    """The numpy type, if its values are plain bytes that its name describes."""
    import numpy

    return _plain_dtype(dtype if isinstance(dtype, numpy.dtype) else numpy.dtype(dtype))


@functools.lru_cache(256)
def _plain_dtype(found: np.dtype[Any]) -> np.dtype[Any]:
    if found.hasobject or found.kind not in _PLAIN or found.fields or found.subdtype:
        raise TypeError(f"arrays of {found} cannot be handed over: their values are no plain bytes")
    if found.char in "gG":
        raise TypeError(f"arrays of {found} cannot be handed over: machines differ in its bytes")
    # The type of another package has the name of raw bytes, or of none.
    import numpy

    try:
        is_named = numpy.dtype(found.str) == found
    except TypeError:
        is_named = False
    if not is_named:
        raise TypeError(
            f"arrays of {found} cannot be handed over: numpy has no name for the type; send a "
            "view of them as integers"
        )
    return found


@functools.lru_cache(256)
def named_dtype(name: str) -> np.dtype[Any]:
    """The numpy type of this name, if its values are plain bytes."""
    return plain_dtype(name)


def type_and_shape(dtype: Any, shape: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The type and the shape that a peer claims. ValueError if they are wrong."""
    if not isinstance(dtype, str) or len(dtype) > 64 or not isinstance(shape, list):
        raise ValueError("a bad type or shape")
    if len(shape) > _DIMENSIONS_MAX:
        raise ValueError("too many dimensions")
    for length in shape:
        if type(length) is not int or length < 0:
            raise ValueError("a bad length")
    try:
        return named_dtype(dtype), tuple(shape)
    except Exception as error:  # whatever the words do to numpy
        raise ValueError(str(error)) from None


def of_claim(block: Block, dtype: Any, shape: Any) -> Array:
    """The array that a peer claims the block to be. ValueError if the claim is wrong."""
    array = Array(block, *type_and_shape(dtype, shape))
    if array.nbytes > block.nbytes:
        raise ValueError(f"{array.nbytes} bytes in a block of {block.nbytes}")
    return array


def block_under(view: Any) -> Block | None:
    """The block whose memory a numpy array shows, if it is one."""
    base = view
    for _ in range(_DIMENSIONS_MAX):
        if isinstance(base, Block):
            return base
        if isinstance(base, memoryview):
            base = base.obj
        else:
            base = getattr(base, "base", None)
    return None
