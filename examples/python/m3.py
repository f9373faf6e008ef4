"""m3ipc from Python, through the C library: what the examples need, no more.

The library is found by the name in M3_LIBRARY, else as libm3ipc.so.0.
"""
import ctypes
import os
import struct

ANY = 31438
LIBRARY = ctypes.CDLL(os.environ.get("M3_LIBRARY", "libm3ipc.so.0"))
LIBRARY.m3_strerror.restype = ctypes.c_char_p


class Message(ctypes.Structure):
    """Source, type and 40 bytes of payload; 48 bytes as in C."""

    _fields_ = [("source", ctypes.c_int), ("type", ctypes.c_int), ("payload", ctypes.c_char * 40)]

    @classmethod
    def of(cls, kind, *words):
        """A message with up to ten 32-bit words."""
        message = cls(0, kind)
        ctypes.memmove(ctypes.addressof(message) + 8, struct.pack(f"{len(words)}i", *words), 4 * len(words))
        return message

    def word(self, index):
        """The 32-bit word at index 0 to 9."""
        return struct.unpack_from("i", bytes(self), 8 + 4 * index)[0]


class M3Error(OSError):
    """A call ended with a code of the contract."""


def call(name, *arguments):
    """Calls a function of the library; codes become exceptions."""
    result = getattr(LIBRARY, name)(*arguments)
    # Task slots are negative too: only what is below -300 is surely no address.
    if result < -300 or (result < 0 and not name.endswith("bind")):
        raise M3Error(-result, f"{name}: {LIBRARY.m3_strerror(result).decode()}")
    return result
