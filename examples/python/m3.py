"""m3ipc from Python, through the C library: the calls that the examples need.

The library is the file that M3_LIBRARY names, else libm3ipc.so.0 of the system.
"""
import ctypes
import os
import struct

ANY = 31438
LOCALNODE = -1
DRVSBUSY = -317
ERRCODE = -300
FOREVER = -1
CLIENT_GONE = (-64, -109, -306, -324, -332, -500)  # errors of a reply that end no server
UNTIL_ENDED, WITH_CREATOR, WITH_MEMBERS = 0, 1, 2  # when a VM ends without a request
BINDS = ("mnx_bind", "mnx_tbind", "mnx_lclbind")  # their last argument is the slot
TEXT_MAX = 4096  # bytes of an answer that sendrec and receive accept besides the 48

LIBRARY = ctypes.CDLL(os.environ.get("M3_LIBRARY", "libm3ipc.so.0"))
LIBRARY.m3_strerror.restype = ctypes.c_char_p


class Message(ctypes.Structure):
    """Sender, type and 40 bytes of payload: 48 bytes, as m3_message in C."""

    _fields_ = [("source", ctypes.c_int), ("type", ctypes.c_int), ("payload", ctypes.c_ubyte * 40)]

    @classmethod
    def of(cls, kind, *words):
        """A message with up to ten 32-bit words; more, and other values, raise ValueError."""
        message = cls(0, kind)
        if len(words) * 4 > ctypes.sizeof(message.payload):
            raise ValueError(f"{len(words)} words do not fit into 40 bytes")
        try:
            struct.pack_into(f"{len(words)}i", message.payload, 0, *words)
        except struct.error:
            raise ValueError(f"{words} are not all integers of 32 bits") from None
        return message

    def word(self, index):
        """The 32-bit word at index 0 to 9; another index raises IndexError."""
        if not 0 <= index < 10:
            raise IndexError(f"word {index} is not in 0 to 9")
        return struct.unpack_from("i", self.payload, 4 * index)[0]


class Vm(ctypes.Structure):
    """Parameters of a VM: 224 bytes, as m3_vm_usr_t in C. 0 is a default for each field."""

    _fields_ = [
        ("vmid", ctypes.c_int),
        ("flags", ctypes.c_int),
        ("nr_procs", ctypes.c_int),
        ("nr_tasks", ctypes.c_int),
        ("nr_sysprocs", ctypes.c_int),
        ("nr_nodes", ctypes.c_int),
        ("nodes", ctypes.c_ulong),
        ("warn2proc", ctypes.c_int),
        ("warnmsg", ctypes.c_int),
        ("pid", ctypes.c_int),
        ("name", ctypes.c_char * 16),
        ("cpumask", ctypes.c_ulong * 16),
        ("grace_ms", ctypes.c_int),
        ("mode", ctypes.c_uint),
        ("uid", ctypes.c_uint),
        ("gid", ctypes.c_uint),
        ("members", ctypes.c_uint),
        ("copy", ctypes.c_uint),
        ("life", ctypes.c_uint),
        ("reserved", ctypes.c_uint),
    ]


class M3Error(OSError):
    """A call failed. `code` is the negative code of the call; str() describes it."""

    def __init__(self, code, name):
        super().__init__(-code, f"{name}: {LIBRARY.m3_strerror(code).decode()} ({code})")
        self.code = code


def call(name, *arguments):
    """Calls a function of the library and returns its result. A code raises M3Error."""
    result = getattr(LIBRARY, name)(*arguments)
    # The endpoint of a task is its slot, which is negative. Any other negative result is a code.
    is_task = name in BINDS and result == arguments[-1]
    if result < ERRCODE or (result < 0 and not is_task):
        raise M3Error(result, name)
    return result


def start_node():
    """Starts the node, if it does not run yet. It stays until mnx_drvs_end or `m3 down`."""
    try:
        call("mnx_drvs_init", LOCALNODE, None)
    except M3Error as error:
        if error.code != DRVSBUSY:
            raise


def start_vm(vmid, name, life=UNTIL_ENDED):
    """Joins a VM with the limits of the node, or starts it."""
    vm = Vm(vmid=vmid, name=name.encode(), life=life)
    call("m3_vm_open_or_create", ctypes.byref(vm))


def sendrec(server, message, data=b""):
    """Sends a request with bytes; returns the bytes of the answer, and writes it to message."""
    answer = ctypes.create_string_buffer(TEXT_MAX)
    length = ctypes.c_size_t(0)
    call("m3_sendrec_long", server, ctypes.byref(message), data, ctypes.c_size_t(len(data)),
         answer, ctypes.c_size_t(TEXT_MAX), ctypes.byref(length))
    return answer.raw[: length.value]


def receive(source, message):
    """Receives a message; returns its bytes, and writes the rest to message."""
    data = ctypes.create_string_buffer(TEXT_MAX)
    length = ctypes.c_size_t(0)
    call("m3_receive_long", source, ctypes.byref(message), data, ctypes.c_size_t(TEXT_MAX),
         ctypes.byref(length))
    return data.raw[: length.value]


def reply(client, message, data=b""):
    """Answers a request with bytes. False if the client gave up or ended: serve the next one."""
    try:
        call("m3_reply_long", client, ctypes.byref(message), data, ctypes.c_size_t(len(data)))
    except M3Error as error:
        if error.code not in CLIENT_GONE:
            raise
        return False
    return True
