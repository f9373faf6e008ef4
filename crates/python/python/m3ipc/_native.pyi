"""The native part of the package. `m3ipc` exports all of it."""
import builtins
from collections.abc import Iterator
from os import PathLike
from typing import Any, Literal, TypeVar, final, overload

from typing_extensions import Buffer

from .arrays import Array
from .codec import Codec

_T = TypeVar("_T")

__all__ = [
    "ANY", "MAX_BYTES", "Block", "Endpoint", "Given", "Message", "Node", "Pending", "Sending",
    "Vm", "__version__", "_after_fork",
]
__version__: str
ANY: int
MAX_BYTES: int

def _after_fork() -> None: ...
@final
class Node:
    """A connection to the node daemon, which is started if none runs.

    >>> node = Node()
    >>> vm = node.open_vm("shop", life="creator")
    >>> "shop" in node.vms()
    True
    """

    def __new__(cls, directory: str | PathLike[str] | None = None) -> Node: ...
    @property
    def directory(self) -> str:
        """The runtime directory of the daemon."""

    def open_vm(
        self,
        name: str,
        *,
        life: Literal["creator", "members", "until-ended"] = "until-ended",
        mode: int | None = None,
        grace: float | None = None,
    ) -> Vm:
        """The VM of this name, which is created if it does not exist.

        With the life "creator" it ends with this process, however the process ends.
        """

    def vm(self, name: str) -> Vm:
        """The VM of this name. `NotFound` if it does not exist."""

    def vms(self) -> list[str]:
        """The names of all VMs."""

    def end_vm(self, vm: Vm) -> None:
        """Ends a VM and its members. Returns after the last of them has ended."""

    def end(self) -> None:
        """Ends all VMs and the daemon."""

@final
class Vm:
    """A VM: the processes that may exchange messages. A process is a member of one VM."""

    @property
    def id(self) -> int:
        """Its number."""

    @property
    def name(self) -> str:
        """Its name."""

    def bind(
        self, slot: int | None = None, *, name: str | None = None, receive_limit: int | None = None
    ) -> Endpoint:
        """A new endpoint of this process, in a slot and with a name if the caller says so.

        One thread at a time uses an endpoint. Several endpoints of a process are independent.
        `receive_limit` holds before the name is there (`Endpoint.receive_limit`).
        """

    def bind_backup(
        self,
        slot: int,
        *,
        timeout: float | None = None,
        name: str | None = None,
        receive_limit: int | None = None,
    ) -> Endpoint:
        """Waits until a slot is at this node, and binds an endpoint there.

        The registry of the nodes names the backup of a slot. Its program waits here while another
        node has the slot, and takes its place when that node has ended, or when the endpoint moves
        (`Endpoint.migrate`). The new endpoint has the same address. Root may take it, and the user
        of a node of one user. The program of the home may wait in the same way.

        `timeout` is in seconds. The wait goes on while no proxy runs on this node. A signal handler
        that raises ends it, as Ctrl-C does. The process is a member of the VM during the wait: it
        has the endpoint that belongs to no object, and ends with the VM. Other endpoints of the
        process go on meanwhile, in other threads.

        `TimedOut` after the limit. At once: `InUse` if another node has the slot, and its backup
        is not at this one; `Refused` without the right to the slot; `BadValue` for a slot that the
        VM does not have. A `receive_limit` does not come from the other node.
        """

@final
class Message:
    """A message, an answer or a notification."""

    @property
    def source(self) -> int:
        """The address of the sender, which the sender cannot choose."""

    @property
    def type(self) -> int:
        """The type that the sender chose."""

    @property
    def data(self) -> bytes:
        """The bytes, whole in each case."""

    @property
    def inline(self) -> bytes:
        """The 40 bytes inside the message. Programs in C may use them."""

    @property
    def is_request(self) -> bool:
        """Whether the sender waits for an answer."""

    @property
    def is_notification(self) -> bool:
        """Whether it is a notification, which has no content."""

    @property
    def died(self) -> int | None:
        """The watched endpoint whose end this message reports."""

    @property
    def block(self) -> Block | None:
        """The block that came with the message, from a program without arrays."""

    @property
    def array(self) -> Array:
        """The only array of the message. TypeError if it has none or several."""

    @property
    def arrays(self) -> tuple[Array | Exception, ...]:
        """All arrays. One that could not be accepted is an exception."""

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint that took it."""

    def decode(self, into: builtins.type[_T], *, codec: Codec | None = None) -> _T:
        """The typed value in the bytes. `DecodeError` if they are no such value."""

    def reply(self, body: Any = None, *, type: int = 0, inline: bytes | None = None) -> bool:
        """Answers the request. Never waits. False if the sender has given up or ended."""

@final
class Pending:
    """A request in parts. `AsyncEndpoint` uses it."""

@final
class Sending:
    """A message in parts. `AsyncEndpoint` uses it."""

@final
class Endpoint:
    """An endpoint of this process.

    The body of a message is bytes, an `Array` or a list of them, a numpy array (which is copied
    once), a `Block`, or a value for the codec: dataclasses, lists, dicts, numbers, text in them.

    Up to 40 bytes may go inside the message, as `inline`: for programs in C, and for the quickest
    calls. Their length does not travel; the receiver sees 40 bytes.

    Time limits are in seconds: `None` for none, 0 for a call that may not wait. Waits release the
    interpreter lock. In the main thread a signal handler runs during the wait; the wait goes on
    unless the handler raises an exception, as Ctrl-C does.

    >>> vm = Node().open_vm("shop", life="creator")
    >>> with vm.bind(name="stock") as server, vm.bind() as client:
    ...     client.notify(server.address)
    ...     server.receive(timeout=5).is_notification
    True
    """

    @property
    def address(self) -> int:
        """Its address in the VM."""

    @property
    def vm(self) -> str:
        """The name of its VM."""

    @property
    def is_bound(self) -> bool:
        """Whether it is still a member: not closed, not unbound by others, and no fork."""

    @overload
    def call(
        self,
        to: int,
        body: Any = None,
        *,
        type: int = 0,
        timeout: float | None = None,
        returns: None = None,
        codec: Codec | None = None,
        inline: bytes | None = None,
    ) -> Message: ...
    @overload
    def call(
        self,
        to: int,
        body: Any = None,
        *,
        type: int = 0,
        timeout: float | None = None,
        returns: builtins.type[_T],
        codec: Codec | None = None,
        inline: None = None,
    ) -> _T:
        """Sends a request and waits for the answer; with `returns`, for its typed value.

        `NotTaken`: a repetition is safe. `OutcomeUnknown`: the server may have acted.
        """

    def send(
        self,
        to: int,
        body: Any = None,
        *,
        type: int = 0,
        timeout: float | None = None,
        codec: Codec | None = None,
        inline: bytes | None = None,
    ) -> None:
        """Sends a message, and returns when the peer has taken it."""

    def receive(self, source: int | None = None, *, timeout: float | None = None) -> Message:
        """Waits for a message or a notification of one endpoint, or of any."""

    def try_receive(self, source: int | None = None) -> Message | None:
        """A message that is there now, or None."""

    def reply(
        self, to: int, body: Any = None, *, type: int = 0, inline: bytes | None = None
    ) -> bool:
        """Answers the request of an endpoint. Never waits. False if it does not wait any more."""

    def reply_receive(
        self,
        to: int,
        body: Any = None,
        *,
        type: int = 0,
        timeout: float | None = None,
        inline: bytes | None = None,
    ) -> Message:
        """Answers a request, then waits for the next message of any endpoint.

        The answer goes first, and is dropped if its client does not wait any more. An exception
        says in `answered` whether the client has it. The time limit is for the next message.
        """

    def notify(self, to: int) -> None:
        """Notifies an endpoint. Never waits. Notifications that were not taken yet are one."""

    def watch(self, peer: int) -> None:
        """Asks for a message when the peer ends: see `Message.died`."""

    def unwatch(self, peer: int) -> None:
        """Ends the watch of a peer."""

    @property
    def receive_limit(self) -> int:
        """The longest body in bytes that this endpoint takes: 16 MiB unless it is set.

        `TooLong` for the sender of a longer one, also of an answer; this endpoint sees nothing of
        it. At least 1,792 bytes, at most `MAX_BYTES`. Arrays and blocks have no limit.
        """

    @receive_limit.setter
    def receive_limit(self, nbytes: int) -> None: ...

    def watch_all(self, on: bool = True) -> None:
        """Watches every peer that has exchanged messages with this endpoint."""

    def name_attach(self, name: str) -> None:
        """Takes a name that is unique in the VM."""

    def locate(self, name: str, *, timeout: float | None = None) -> int:
        """Waits until an endpoint has the name. Returns its address."""

    def wait_bind(self, peer: int, *, timeout: float | None = None) -> int:
        """Waits until an endpoint is bound at an address, also while it moves between two nodes.

        Returns the address. `NoSuchPeer` if another endpoint has the slot, or nobody takes it.
        """

    def migrate(self, *, timeout: float | None = None) -> None:
        """Moves this endpoint to the other node that the registry names for its slot.

        A program waits there in `Vm.bind_backup`, and gets the address. Answer first what was
        taken: other requests end with `DiedAfter`. Callers of a third node wait for the new
        endpoint. Those of the two nodes get `NotTaken` with the code -332, and call again after
        `wait_bind`. The state of the program does not move.

        This object has ended then: `is_bound` is False, and its calls raise `Unbound`. The other
        endpoints of the process go on. `Vm.bind_backup` waits for the way back.

        The call takes 3 seconds at most, or `timeout` seconds if that is less. After `NotMoved`
        (with `MoveTimedOut`) the endpoint is as before, and does not move later. After
        `OutcomeUnknown` or an exception of a signal handler, `is_bound` tells.
        """

    def fileno(self) -> int:
        """A descriptor for event loops: readable when `try_receive` may find something."""

    def array(
        self, shape: int | tuple[int, ...], dtype: Any = None, *, to: int | None = None
    ) -> Array:
        """An array in shared memory. With `to`, only that endpoint can get it or map it."""

    def block(self, nbytes: int, *, to: int | None = None) -> Block:
        """A block of shared memory. With `to`, only that endpoint can get it or map it."""

    def give(self, to: int, block: Block) -> Given:
        """Gives a block away without a message. `BufferError` while it has views."""

    def accept(self, source: int, name: bytes) -> Block:
        """Accepts a block that an endpoint has given to this one."""

    def take_back(self, given: Given) -> Block | None:
        """Takes back a block that was not accepted. None if it was."""

    def close(self) -> None:
        """Ends the endpoint. Its peers learn of it at once."""

    def __enter__(self) -> Endpoint: ...
    def __exit__(self, *_args: object) -> None: ...
    def __iter__(self) -> Iterator[Message]: ...
    def __next__(self) -> Message:
        """The next message, as `receive` gives it."""

    def _call(
        self, to: int, data: bytes, m_type: int, timeout: float | None, inline: bytes
    ) -> Message: ...
    def _send(
        self, to: int, data: bytes, m_type: int, timeout: float | None, inline: bytes
    ) -> None: ...
    def _reply(self, to: int, data: bytes, m_type: int, inline: bytes) -> bool: ...
    def _reply_block(self, to: int, block: Block, m_type: int) -> bool: ...
    def _begin(self, to: int, data: bytes, m_type: int, inline: bytes) -> Pending: ...
    def _poll(self, pending: Pending) -> Message | None: ...
    def _abandon(self, pending: Pending) -> bool: ...
    def _begin_send(self, to: int, data: bytes, m_type: int, inline: bytes) -> Sending: ...
    def _poll_send(self, sending: Sending) -> bool: ...
    def _withdraw(self, sending: Sending) -> bool: ...
    def _try_receive(self, source: int | None, has_others: bool) -> tuple[Message | None, int]: ...
    def _forget_area(self, peer: int) -> None: ...
    def _identity(self, peer: int) -> tuple[int, int] | None: ...
    def _take_back_into(self, given: Given, into: Block) -> bool: ...
    def _with_block(
        self, how: str, to: int, block: Block, m_type: int, timeout: float | None
    ) -> Message | None: ...

@final
class Block(Buffer):
    """A block of shared memory. memoryview and numpy read and write it in place."""

    @staticmethod
    def _local(nbytes: int) -> Block: ...
    @staticmethod
    def _local_of(data: bytes, start: int, end: int) -> Block: ...
    @property
    def _is_local(self) -> bool: ...
    def _take_bytes(self) -> bytes | None: ...
    def _put_bytes(self, data: bytes) -> None: ...
    @property
    def nbytes(self) -> int:
        """The length of the content in bytes."""

    @property
    def capacity(self) -> int:
        """The length that the content may have, in bytes."""

    @property
    def area(self) -> int:
        """The number of its area. ValueError for the block of a small array, which has none."""

    @property
    def number(self) -> int:
        """Its number in the area. ValueError for the block of a small array, which has none."""

    @property
    def exports(self) -> int:
        """The views that exist now."""

    @property
    def is_held(self) -> bool:
        """Whether it is still here: not given away and not released."""

    @property
    def readonly(self) -> bool:
        """Whether its content cannot be written here."""

    def resize(self, nbytes: int) -> None:
        """Sets the length of the content, up to the capacity."""

    def release(self) -> None:
        """Frees the memory. `BufferError` while it has views."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __release_buffer__(self, buffer: memoryview, /) -> None: ...
    def __len__(self) -> int: ...

@final
class Given:
    """A block that was given and may not be accepted yet."""

    @property
    def name(self) -> bytes:
        """Its name of 32 bytes, for `Endpoint.accept`."""
