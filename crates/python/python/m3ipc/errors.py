"""The exceptions of the package, by their cause.

    Error
     +- NotTaken            the peer took nothing: a repetition is safe
     |   +- NoSuchPeer, DiedBefore, Unreachable, WouldBlock, Deadlock, Refused, TooLong
     |   +- NotWaiting
     +- OutcomeUnknown      the request may have been taken, and no answer came
     |   +- DiedAfter, AnswerLost, CallTimedOut, CallInterrupted
     +- Died                a peer ended:  DiedBefore, DiedAfter
     +- TimedOut            the time limit passed:  CallTimedOut, MoveTimedOut
     +- NotMoved            an endpoint serves on where it is:  MoveTimedOut
     +- Interrupted         a signal ended the wait
     +- PeerBroke           the peer broke the rules of the link
     +- Unbound             the endpoint or the node connection of the caller is gone
     |   +- Forked          it belongs to the parent process
     +- DaemonGone          no node daemon answers
     +- VersionMismatch, NotFound, InUse, BadValue, Busy, NoResources
     +- WorkerDied          a worker of a pool ended while it had the task

Each exception has `code`, the number of the contract, and `peer`, the address of the other
endpoint, or None. After a call or a send, `taken` says whether the peer took the message, or is
None where that is not known. After `reply_receive`, `answered` says whether the client has its
answer. The text says what happened and what to do next.

>>> issubclass(DiedBefore, NotTaken) and issubclass(TimedOut, TimeoutError)
True
"""


class Error(Exception):
    """The base of all exceptions of the package."""

    code: int = 0
    peer: int | None = None
    answered: bool | None = None
    taken: bool | None = None


class NotTaken(Error):
    """The peer took nothing, so a repetition is safe."""

    taken = False


class OutcomeUnknown(Error):
    """The peer took the request, or may have taken it. No answer came."""


class Died(Error):
    """A peer ended."""


class NoSuchPeer(NotTaken, LookupError):
    """No endpoint is at that address, or no longer."""


class DiedBefore(NotTaken, Died):
    """The peer died before it took the message."""


class Unreachable(NotTaken, ConnectionError):
    """The node of the peer cannot be reached, or no daemon made the way to the peer."""


class DiedAfter(OutcomeUnknown, Died):
    """The server died after it took the request and before it answered."""


class WouldBlock(NotTaken, BlockingIOError):
    """The peer is not ready, and the call may not wait."""


class Deadlock(NotTaken):
    """The peer waits for the caller, directly or through others."""


class Refused(NotTaken, PermissionError):
    """Privileges or the mode of the VM forbid it."""


class TooLong(NotTaken, ValueError):
    """The bytes are more than a message can have: give an array or a block."""


class NotWaiting(NotTaken):
    """The peer does not wait for an answer from here, or no longer."""


class TimedOut(Error, TimeoutError):
    """The time limit passed."""


class CallTimedOut(TimedOut, OutcomeUnknown):
    """The time limit of a call passed. A request that was not taken is withdrawn."""


class NotMoved(Error):
    """The endpoint has not moved to another node, and does not move later."""


class MoveTimedOut(TimedOut, NotMoved):
    """The time limit of a move passed. The endpoint serves on where it is."""


class Interrupted(Error, InterruptedError):
    """A signal ended the wait."""


class CallInterrupted(Interrupted, OutcomeUnknown):
    """A signal ended a call. A request that was not taken is withdrawn."""


class AnswerLost(OutcomeUnknown):
    """The server took the request, and its node or its answer is lost."""


class PeerBroke(Error):
    """The peer broke the rules of the link, which stays closed, or sent what it may not send."""


class Unbound(Error):
    """The endpoint of the caller is gone, or was closed."""


class Forked(Unbound):
    """The object belongs to the parent process."""


class DaemonGone(Error, ConnectionError):
    """No node daemon answers."""


class VersionMismatch(Error):
    """The node daemon is of another version than this package."""


class NotFound(Error, LookupError):
    """There is no such VM, name or area."""


class InUse(Error):
    """The name, the slot or the id is taken."""


class BadValue(Error, ValueError):
    """A parameter has a bad value."""


class Busy(Error):
    """Another thread or another call uses it."""


class NoResources(Error, OSError):
    """Memory, space in an area or descriptors are used up."""


class WorkerDied(OutcomeUnknown):
    """The worker of a pool ended while it had the task. Its exit code is `exitcode`: the negative
    number of a signal that ended it, or None where the program left none to read."""

    exitcode: int | None = None


# What a code means in every operation.
_COMMON: dict[int, type[Error]] = {
    -1: Refused, -104: Refused, -110: Refused, -335: Refused, -331: Refused, -340: Refused,
    -4: Interrupted, -11: WouldBlock, -61: TimedOut, -73: TooLong, -101: Deadlock,
    -105: NoSuchPeer, -306: NoSuchPeer, -34: NoSuchPeer, -109: DiedBefore, -108: Died,
    -324: NotWaiting, -332: NotTaken, -500: PeerBroke,
    -310: Unbound, -65: Unbound, -303: Unbound, -334: Unbound,
    -64: DaemonGone, -318: DaemonGone, -502: VersionMismatch,
    -316: NotFound, -302: NotFound, -304: NotFound, -337: InUse, -342: InUse, -317: InUse,
    -338: BadValue, -339: BadValue, -343: BadValue, -22: BadValue, -347: BadValue,
    -16: Busy, -106: Busy, -12: NoResources, -344: NoResources, -503: NoResources,
    -330: NoResources, -504: NotFound, -505: AnswerLost, -501: OutcomeUnknown,
}
# What it means in one operation alone.
_OF: dict[tuple[str, int], type[Error]] = {
    ("call", -108): DiedAfter, ("call", -61): CallTimedOut, ("call", -4): CallInterrupted,
    ("node", -303): NotFound, ("node", -310): NotFound, ("node", -34): BadValue,
    ("bind", -303): NotFound, ("bind", -34): BadValue, ("fork", -310): Forked,
    ("endpoint", -310): Unbound, ("block", -73): BadValue, ("bind", -308): InUse,
    ("move", -11): NotMoved, ("move", -64): NotMoved, ("move", -307): NotMoved,
    ("move", -316): NotMoved, ("move", -61): MoveTimedOut,
}


def _make(
    op: str, code: int, text: str, peer: int | None, taken: bool | None = None,
) -> Error:
    """The exception for a code in an operation."""
    kind = _OF.get((op, code), _COMMON.get(code, Error))
    if kind is DaemonGone and peer is not None:
        kind = Unreachable
    error = kind(text)
    error.code, error.peer = code, peer
    if taken is not None:
        error.taken = taken
    return error
